package pull

// Pool describes the containers in the form of the original's scheduler mode.
type Pool struct {
	Busy       Containing `json:"busyPool"`
	InProgress int        `json:"inProgressCount"`
	Paused     Containing `json:"pausedPool"`
	Prewarmed  Prewarmed  `json:"prewarmedPool"`
	Total      int        `json:"totalContainers"`
}

// Containing is a group of containers in a Pool.
type Containing struct {
	Containers []Container `json:"containers"`
	Total      int         `json:"total"`
}

// Container is a container in a Pool.
type Container struct {
	Action      string `json:"action"`
	ContainerID string `json:"containerId"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
}

// Prewarmed counts unused containers.
type Prewarmed struct {
	Kinds map[string]int `json:"countsByKind"`
	Total int            `json:"total"`
}

// Pool lists the slots. Prewarmed containers are missing, because a Puller does not know
// them.
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
