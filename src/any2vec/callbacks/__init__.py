"""What is told of a run while it goes on: the protocol, and what writes for TensorBoard, MLflow, Weights & Biases."""
