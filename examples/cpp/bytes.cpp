// Adds the bytes of a text on the GPU, in C++ by the driver's own interface. It needs
// no toolkit to compile, and no library except the driver's to run.
//
//   g++ -O2 -std=c++17 -static-libstdc++ -static-libgcc -o exec bytes.cpp -ldl
//   zip exec.zip exec
//   wsk action create bytes exec.zip --docker gpuwhisk/action-native -a gpu true -a invoker-resources '["gpu"]'
//   wsk action invoke bytes -r -p text hello
//
// The argument is the JSON of the parameters, and the last line of output is the
// result. With __OW_ACTION_LOOP=true in the image (see Dockerfile) the program keeps
// running: it reads a line for each run and answers on descriptor 3, and its device
// memory stays.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <dlfcn.h>

namespace {

// Adds n bytes to a 64-bit sum.
const char ptx[] = R"(
.version 6.0
.target sm_70
.address_size 64
.visible .entry sum(.param .u64 ptr, .param .u64 n, .param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [ptr];
    ld.param.u64 %rd2, [n];
    ld.param.u64 %rd7, [out];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd7, %rd7;
    mov.u64 %rd8, 0;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %nctaid.x;
    mul.wide.u32 %rd3, %r2, %r3;
    cvt.u64.u32 %rd4, %r4;
    add.u64 %rd3, %rd3, %rd4;
    mul.wide.u32 %rd5, %r5, %r3;
loop:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    add.u64 %rd6, %rd1, %rd3;
    ld.global.u8 %rd9, [%rd6];
    add.u64 %rd8, %rd8, %rd9;
    add.u64 %rd3, %rd3, %rd5;
    bra loop;
done:
    red.global.add.u64 [%rd7], %rd8;
    ret;
}
)";

constexpr std::size_t most = 1 << 20;  // bytes of a text

class Driver {
public:
	Driver() : library(dlopen("libcuda.so.1", RTLD_NOW))
	{
		if (!library)
			throw std::runtime_error(dlerror());
	}

	template <typename... Args>
	void call(const char *name, Args... args) const
	{
		using function = int (*)(Args...);
		auto f = reinterpret_cast<function>(dlsym(library, name));
		if (!f)
			throw std::runtime_error(std::string(name) + ": the driver has no such call");
		if (int code = f(args...))
			throw std::runtime_error(std::string(name) + ": the driver answered " + std::to_string(code));
	}

private:
	void *library;
};

class Adder {
public:
	Adder()
	{
		void *context, *module;
		cuda.call("cuInit", 0u);
		cuda.call("cuDevicePrimaryCtxRetain", &context, 0);
		cuda.call("cuCtxSetCurrent", context);
		cuda.call("cuModuleLoadData", &module, static_cast<const void *>(ptx));
		cuda.call("cuModuleGetFunction", &kernel, module, "sum");
		cuda.call("cuMemAlloc_v2", &bytes, most);
		cuda.call("cuMemAlloc_v2", &total, sizeof(std::uint64_t));
	}

	std::uint64_t add(const std::string &text)
	{
		std::uint64_t n = text.size(), zero = 0, sum = 0;
		cuda.call("cuMemcpyHtoD_v2", total, static_cast<const void *>(&zero), sizeof zero);
		if (n > 0) {
			cuda.call("cuMemcpyHtoD_v2", bytes, static_cast<const void *>(text.data()), text.size());
			void *args[] = {&bytes, &n, &total};
			cuda.call("cuLaunchKernel", kernel, 32u, 1u, 1u, 128u, 1u, 1u, 0u, static_cast<void *>(nullptr), args,
				static_cast<void **>(nullptr));
		}
		cuda.call("cuMemcpyDtoH_v2", static_cast<void *>(&sum), total, sizeof sum);
		return sum;
	}

	std::string device() const
	{
		char name[96] = "";
		cuda.call("cuDeviceGetName", static_cast<char *>(name), int(sizeof name), 0);
		return name;
	}

private:
	Driver cuda;
	void *kernel = nullptr;
	std::uint64_t bytes = 0, total = 0;
};

// text finds the parameter "text": enough of JSON for an example. Escapes count
// as the bytes that they are written with.
std::string text(const std::string &json)
{
	auto at = json.find("\"text\"");
	if (at == std::string::npos)
		return "";
	at = json.find('"', json.find(':', at));
	if (at == std::string::npos)
		return "";
	std::string out;
	for (++at; at < json.size() && json[at] != '"' && out.size() < most; ++at) {
		if (json[at] == '\\' && at + 1 < json.size())
			out += json[at++];
		out += json[at];
	}
	return out.substr(0, most);
}

int runs = 0;

std::string answer(const std::string &json)
{
	try {
		static Adder adder;  // once for each process
		auto sum = adder.add(text(json));
		return "{\"device\": \"" + adder.device() + "\", \"runs\": " + std::to_string(++runs) +
			", \"sum\": " + std::to_string(sum) + "}";
	} catch (const std::exception &e) {
		std::string why;
		for (const char *c = e.what(); *c; ++c)
			if (*c != '"' && *c != '\\')
				why += *c;
		return "{\"error\": \"" + why + "\"}";
	}
}

}  // namespace

int main(int argc, char **argv)
{
	const char *loop = std::getenv("__OW_ACTION_LOOP");
	if (!loop || std::string(loop) != "true") {
		std::cout << answer(argc > 1 ? argv[1] : "{}") << std::endl;
		return 0;
	}
	std::FILE *out = fdopen(3, "w");
	for (std::string line; out && std::getline(std::cin, line);) {
		std::fprintf(out, "%s\n", answer(line).c_str());
		std::fflush(out);
	}
}
