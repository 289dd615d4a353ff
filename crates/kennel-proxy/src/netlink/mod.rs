//! Messages to the kernel.
