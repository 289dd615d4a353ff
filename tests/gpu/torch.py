"""A product of matrices on the card, beside the same on the processor."""
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
torch.manual_seed(1)
one, other = torch.rand(512, 512), torch.rand(512, 512)
product = (one.cuda() @ other.cuda()).cpu()
assert torch.allclose(product, one @ other, rtol=1e-2), "the card computes something else"
print("product", product.shape[0])
