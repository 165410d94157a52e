def main(args):
    found = [n for n in range(2, 2000) if all(n % d for d in range(2, int(n ** 0.5) + 1))]
    return {"primes": len(found)}
