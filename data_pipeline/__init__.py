"""Documents rendered with exact truth, from a recipe to shards for training."""
