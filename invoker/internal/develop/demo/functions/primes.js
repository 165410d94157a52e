function main() {
  const prime = (n) => { for (let d = 2; d * d <= n; d++) if (n % d === 0) return false; return true; };
  let found = 0;
  for (let n = 2; n < 2000; n++) if (prime(n)) found++;
  return { primes: found };
}
