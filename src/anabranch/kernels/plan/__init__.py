"""From a logical plan to stages of kernels, and what may be asked of them."""
