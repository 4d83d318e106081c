"""Replicas of dense parameters: optimizer steps and synchronization, without a lock."""
