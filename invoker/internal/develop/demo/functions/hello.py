def main(args):
    print("greeting", args["name"])
    return {"greeting": "Hello " + args["name"]}
