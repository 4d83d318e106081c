"""Networks that users bring: any `torch.nn.Module` of PyG layers."""
