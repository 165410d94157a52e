import java.util.Arrays;
import jcuda.Pointer;
import jcuda.runtime.JCuda;
import jcuda.runtime.cudaEvent_t;
import jcuda.runtime.cudaStream_t;

/** Holds device memory by NVIDIA's CUDA runtime, and finds it as it was. */
public class Held {
	static final int SIZE = 4 << 20, TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3;

	static void ok(String what, int result) {
		if (result != 0)
			throw new AssertionError(what + ": " + result);
	}

	static void check(String what, boolean holds) {
		if (!holds)
			throw new AssertionError(what);
	}

	public static void main(String[] args) throws Exception {
		int[] n = new int[1];
		long[] free = new long[1], total = new long[1];
		Pointer block = new Pointer(), other = new Pointer();
		byte[] here = new byte[SIZE], back = new byte[SIZE];
		cudaStream_t stream = new cudaStream_t();
		cudaEvent_t event = new cudaEvent_t();

		new java.util.Random(1).nextBytes(here);
		ok("cudaGetDeviceCount", JCuda.cudaGetDeviceCount(n));
		check("one device", n[0] == 1);
		ok("cudaMalloc", JCuda.cudaMalloc(block, SIZE));
		ok("cudaMemcpy", JCuda.cudaMemcpy(block, Pointer.to(here), SIZE, TO_DEVICE));
		ok("cudaMemGetInfo", JCuda.cudaMemGetInfo(free, total));
		check("the limit", total[0] == Long.parseLong(args[0]) && free[0] == total[0] - SIZE);
		check("beyond the limit", JCuda.cudaMalloc(other, total[0]) == 2);
		System.out.println("held");
		System.in.read();
		ok("cudaMemcpy", JCuda.cudaMemcpy(Pointer.to(back), block, SIZE, TO_HOST));
		check("contents", Arrays.equals(here, back));
		ok("cudaStreamCreate", JCuda.cudaStreamCreate(stream));
		ok("cudaEventCreate", JCuda.cudaEventCreate(event));
		ok("cudaMalloc", JCuda.cudaMalloc(other, SIZE));
		ok("cudaMemcpyAsync", JCuda.cudaMemcpyAsync(other, block, SIZE, ON_DEVICE, stream));
		ok("cudaMemsetAsync", JCuda.cudaMemsetAsync(block, 7, SIZE, stream));
		Arrays.fill(back, (byte) 0);
		ok("cudaMemcpyAsync", JCuda.cudaMemcpyAsync(Pointer.to(back), other, SIZE, TO_HOST, stream));
		ok("cudaEventRecord", JCuda.cudaEventRecord(event, stream));
		ok("cudaEventSynchronize", JCuda.cudaEventSynchronize(event));
		ok("cudaStreamSynchronize", JCuda.cudaStreamSynchronize(stream));
		check("contents of the copy", Arrays.equals(here, back));
		ok("cudaEventDestroy", JCuda.cudaEventDestroy(event));
		ok("cudaStreamDestroy", JCuda.cudaStreamDestroy(stream));
		ok("cudaFree", JCuda.cudaFree(other));
		ok("cudaFree", JCuda.cudaFree(block));
		JCuda.cudaMemGetInfo(free, total);
		check("all free", free[0] == total[0]);
		JCuda.cudaRuntimeGetVersion(n);
		System.out.println(n[0]);
	}
}
