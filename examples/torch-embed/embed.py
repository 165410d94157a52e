"""Turns texts into vectors on the GPU, and tells how alike they are.

    wsk action create embed embed.py --docker USER/embed:1 -a gpu '{"memory": "1 GB"}' -a invoker-resources '["gpu"]' -m 2048
    wsk action invoke embed -r -p texts '["a warm day", "warm days", "the queue is full"]'

Each text becomes the sum of the vectors of its letter triples. These vectors are
drawn at random from a fixed seed when the container starts (random projection), so
similar texts have similar sums, and nothing is downloaded. A real function would
load a model here.
"""

import zlib

import torch

ROWS, WIDTH = 1 << 16, 256  # 64 MB of weights

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
name = torch.cuda.get_device_name(0) if device.type == "cuda" else "cpu"
vectors = torch.nn.EmbeddingBag.from_pretrained(
    torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)), mode="sum").to(device)


def triples(text):
    padded = "  " + text.lower() + "  "
    return [zlib.crc32(padded[i:i + 3].encode()) % ROWS for i in range(len(padded) - 2)]


@torch.inference_mode()
def main(args):
    texts = args.get("texts", ["a warm day", "warm days", "the queue is full"])
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts) or len(texts) > 1000:
        return {"error": "texts: want a list of 1 to 1000 texts"}
    rows = [triples(t) for t in texts]
    starts = [0]
    for r in rows[:-1]:
        starts.append(starts[-1] + len(r))
    flat = torch.tensor([i for r in rows for i in r], device=device)
    out = torch.nn.functional.normalize(vectors(flat, torch.tensor(starts, device=device)))
    alike = (out @ out.T).cpu()
    answer = {"device": name, "alike": [[round(float(x), 3) for x in row] for row in alike]}
    if args.get("vectors"):
        answer["vectors"] = out.cpu().tolist()
    return answer
