"""The worker on PyTorch. The allocator is chosen by PYTORCH_ALLOC_CONF."""

import lines

pipe = lines.own_stdout()

import torch  # noqa: E402


class Torch(lines.Worker):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def memory(self):
        return torch.cuda.mem_get_info()

    def sync(self):
        torch.cuda.synchronize()

    def make(self, size):
        words = size // 4
        return lines.Block(torch.empty(words, dtype=torch.int32, device="cuda"), words)

    def expected(self, b, start, end):
        i = torch.arange(start, end, dtype=torch.int32, device="cuda")
        return i.mul_(lines.signed(b.m)).add_(lines.signed(b.b))

    def a_pass(self, b):
        b.array.mul_(lines.A).add_(lines.C)

    def record(self, b):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # the kernels must be loaded before
            self.a_pass(b)
            b.passed()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.a_pass(b)
        self.graphs[id(b)] = graph

    def replay(self, b):
        self.graphs[id(b)].replay()

    def order_libraries(self):
        x = torch.ones(8, 64, 64, 64, device="cuda")
        for dtype in (torch.float32, torch.float16):
            y = x.to(dtype)
            torch.nn.functional.conv2d(y, y[:, :, :3, :3], padding=1)  # cuDNN
            torch.matmul(y, y)  # cuBLAS
        torch.fft.fft(x)
        torch.linalg.inv(torch.eye(64, device="cuda"))  # cuSOLVER
        return {}

    def order_fft(self, size, times):
        x = self.kept(("fft", size), lambda: torch.ones(size // 8, dtype=torch.complex64, device="cuda"))
        for _ in range(times):
            y = torch.fft.fft(x)
        del y
        return {}

    def order_gemm(self, rows, times):
        def make():
            return [torch.ones(rows, rows, dtype=torch.float32, device="cuda") for _ in range(3)]

        a, b, c = self.kept(("gemm", rows), make)
        for _ in range(times):
            torch.mm(a, b, out=c)
        return {}

    def order_loop(self, launches):
        x = self.kept("loop", lambda: torch.zeros(1024, device="cuda"))
        for _ in range(launches):
            x.add_(1)
        return {}


torch.cuda.init()
lines.serve(pipe, Torch(), "PyTorch %s, CUDA %s" % (torch.__version__, torch.version.cuda))
