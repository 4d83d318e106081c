"""Next uses of rows and what caches do with them."""
