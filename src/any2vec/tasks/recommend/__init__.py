"""The task of recommending: users, items, and who has had what."""
