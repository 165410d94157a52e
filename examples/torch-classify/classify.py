"""Says what an image shows, with a small convolutional network on the GPU.

    wsk action create classify classify.py --docker USER/classify:1 -a gpu '{"memory": "2 GB"}' -a invoker-resources '["gpu"]' -m 2048 -t 300000
    wsk action invoke classify -r -p draw circle

The image is 32 by 32 points of grey: "pixels" (base64, 1024 bytes), or one that
the function draws itself ("draw": circle, square, triangle or stripes, with a
"seed"). When the container starts, the network learns these four shapes in some
seconds, so no weights are downloaded. On a busy machine this takes longer, hence
-t. A real function would load a file here.
"""

import base64
import math
import random

import torch

SIDE = 32
CLASSES = ("circle", "square", "triangle", "stripes")

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
name = torch.cuda.get_device_name(0) if device.type == "cuda" else "cpu"


def inside(what, dx, dy, size, slant):
    if what == "circle":
        return math.hypot(dx, dy) < size
    if what == "square":
        return max(abs(dx), abs(dy)) < size
    if what == "triangle":
        return -size < dy < size and abs(dx) < (dy + size) / 2
    return math.sin((dx * math.cos(slant) + dy * math.sin(slant)) * 9 / size) > 0


def draw(what, rng):
    """One image of a class, as a row of numbers from 0 to 1."""
    x, y = rng.uniform(12, 20), rng.uniform(12, 20)
    size, slant = rng.uniform(6, 11), rng.uniform(0, math.pi)
    return [min(1.0, max(0.0, (0.8 if inside(what, i % SIDE - x, i // SIDE - y, size, slant) else 0.2) + rng.gauss(0, 0.1)))
            for i in range(SIDE * SIDE)]


def tensor(images):
    return torch.tensor(images, dtype=torch.float32, device=device).view(-1, 1, SIDE, SIDE)


def learn():
    torch.manual_seed(1)
    rng = random.Random(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(16 * 8 * 8, len(CLASSES))).to(device)
    labels = [i % len(CLASSES) for i in range(320)]
    images, wanted = tensor([draw(CLASSES[k], rng) for k in labels]), torch.tensor(labels, device=device)
    step = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(100):
        step.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), wanted)
        loss.backward()
        step.step()
    print("learnt on", name, "with a loss of", round(float(loss), 3))
    return net.eval()


network = learn()  # once for each container: the cold part of its first run


@torch.inference_mode()
def main(args):
    if "pixels" in args:
        raw = base64.b64decode(args["pixels"])
        if len(raw) != SIDE * SIDE:
            return {"error": "pixels: want %d bytes, got %d" % (SIDE * SIDE, len(raw))}
        image = [b / 255 for b in raw]
    else:
        what = args.get("draw", "circle")
        if what not in CLASSES:
            return {"error": "draw: want one of %s, got %s" % (", ".join(CLASSES), what)}
        image = draw(what, random.Random(args.get("seed", 3)))
    scores = torch.softmax(network(tensor([image]))[0], 0).cpu()
    best = int(scores.argmax())
    return {"device": name, "label": CLASSES[best], "scores": {c: round(float(s), 3) for c, s in zip(CLASSES, scores)}}
