package pull

// Pool is what the original's scheduler mode shows of its containers.
type Pool struct {
	Busy       Containing `json:"busyPool"`
	InProgress int        `json:"inProgressCount"`
	Paused     Containing `json:"pausedPool"`
	Prewarmed  Prewarmed  `json:"prewarmedPool"`
	Total      int        `json:"totalContainers"`
}

// Containing is some containers of a Pool.
type Containing struct {
	Containers []Container `json:"containers"`
	Total      int         `json:"total"`
}

// Container is one of a Pool.
type Container struct {
	Action      string `json:"action"`
	ContainerID string `json:"containerId"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
}

// Prewarmed counts containers that no action has used.
type Prewarmed struct {
	Kinds map[string]int `json:"countsByKind"`
	Total int            `json:"total"`
}

// Pool lists the slots. Of prewarmed containers a Puller knows nothing.
func (p *Puller) Pool() Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool := Pool{Prewarmed: Prewarmed{Kinds: map[string]int{}}}
	pool.Busy.Containers, pool.Paused.Containers = []Container{}, []Container{}
	for _, v := range p.table.Views() {
		c := Container{
			Action: v.Creation.Queue.Action.FQN(), ContainerID: p.name(v.ID), Kind: v.Creation.Kind, Namespace: v.Creation.Queue.Namespace,
		}
		switch {
		case v.Opening:
			pool.InProgress++
		case v.Paused:
			pool.Paused.Containers = append(pool.Paused.Containers, c)
		default:
			pool.Busy.Containers = append(pool.Busy.Containers, c)
		}
	}
	pool.Busy.Total, pool.Paused.Total = len(pool.Busy.Containers), len(pool.Paused.Containers)
	pool.Total = pool.Busy.Total + pool.Paused.Total + pool.InProgress
	return pool
}
