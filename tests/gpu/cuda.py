"""What a program does first with a card of NVIDIA's: initialise CUDA, copy 64 MiB there and back, and count the cards."""
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name} returned {result}")


count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
size = 64 << 20
there = ctypes.c_uint64()
call("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(size))
sent, back = os.urandom(size), ctypes.create_string_buffer(size)
call("cuMemcpyHtoD_v2", there, sent, ctypes.c_size_t(size))
call("cuMemcpyDtoH_v2", back, there, ctypes.c_size_t(size))
assert back.raw == sent, "what came back is not what was sent"
print(f"cards {count.value}")
