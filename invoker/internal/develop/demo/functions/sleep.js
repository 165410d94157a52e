const sleep = (seconds) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
sleep(LOAD);

function main() {
  sleep(WARM);
  return { function: NAME };
}
