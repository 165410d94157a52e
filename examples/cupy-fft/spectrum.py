"""Names the strongest tones of a signal, by a Fourier transform on the GPU.

    wsk action create spectrum spectrum.py --kind python:3-gpu -a gpu true -a invoker-resources '["gpu"]'
    wsk action invoke spectrum -r -p tones '[440, 1000]'

The signal is given as "samples" (base64 of 32-bit floats) with its "rate" in Hz,
or is made of "tones" in Hz. CuPy computes if there is a GPU that it can use, NumPy
otherwise. The answer is the same, and its field "device" names the GPU or "cpu".
"""

import base64

import numpy


def library():
    """CuPy and its device's name, or NumPy where no GPU can be used."""
    try:
        import cupy
        cupy.zeros(1)  # the first use of the driver
        return cupy, cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # no CuPy, no driver, no device
        print("on the CPU:", error)
        return numpy, "cpu"


xp, device = library()  # once for each container: the cold part of its first run

MOST = 1 << 22  # samples


def signal(args):
    rate = int(args.get("rate", 48000))
    if not 1 <= rate <= 10_000_000:
        raise ValueError("rate: want 1 to 10000000 Hz, got %d" % rate)
    if "samples" in args:
        raw = base64.b64decode(args["samples"])
        return numpy.frombuffer(raw[:len(raw) // 4 * 4], dtype="<f4")[:MOST], rate
    tones = [float(hz) for hz in args.get("tones", [440])][:100]
    at = numpy.arange(min(10 * rate, MOST), dtype=numpy.float64) / rate
    return sum(numpy.sin(2 * numpy.pi * hz * at) / (i + 1) for i, hz in enumerate(tones)).astype("f4"), rate


def main(args):
    samples, rate = signal(args)
    if len(samples) < 16:
        return {"error": "samples: want 16 or more, got %d" % len(samples)}
    on_device = xp.asarray(samples) * xp.hanning(len(samples))
    power = xp.abs(xp.fft.rfft(on_device))
    if xp is not numpy:
        power = power.get()  # the answer's way back to the host
    found = []
    for _ in range(int(args.get("peaks", 2))):
        top = int(power.argmax())
        found.append(round(top * rate / len(samples), 1))
        power[max(0, top - 8):top + 9] = 0  # its skirts are no tones
    return {"device": device, "samples": len(samples), "tones": found}
