import time

time.sleep(LOAD)

def main(args):
    time.sleep(WARM)
    return {"function": NAME}
