package zookeeper

import (
	"context"
	"errors"
	"fmt"
)

// Mapping reads which name has which number, and changes nothing. It tries
// once, until ctx ends. Where no invoker ever got a number it is empty.
func Mapping(ctx context.Context, hosts string) (map[string]int, error) {
	if err := (Request{Hosts: hosts, Name: "reader"}).check(); err != nil {
		return nil, err
	}
	s, err := connect(ctx, servers(hosts))
	if err != nil {
		return nil, err
	}
	defer s.close()
	all, err := readMapping(s)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read mapping: %w", errors.Join(context.Cause(ctx), err))
	}
	return all, err
}

func readMapping(t tree) (map[string]int, error) {
	all := map[string]int{}
	names, err := t.children(mappingPath)
	if errors.Is(err, errNoNode) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, err := number(t, name)
		if errors.Is(err, errNoNode) {
			continue // taken away in between
		}
		if err != nil {
			return nil, err
		}
		all[name] = id
	}
	return all, nil
}
