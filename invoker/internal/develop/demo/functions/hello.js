function main(args) {
  console.log('greeting', args.name);
  return { greeting: 'Hello ' + args.name };
}
