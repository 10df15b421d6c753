package policy

import (
	"slices"
)

// Room is what is known of the container that a process runs in. An empty field is unknown, and a
// rule that needs it does not match.
type Room struct {
	Runtime, Container, Image, Pod, Namespace string
	Env, Labels                               []string // NAME=VALUE
}

// Rooms selects containers. All of its keys must hold.
type Rooms struct {
	Runtime   []string   `key:"runtime" one:"docker|containerd" list:"any" doc:"what runs the container; containerd: without docker, as for Kubernetes"`
	Container []NameGlob `key:"container" list:"any" doc:"glob on the container's name"`
	Image     []NameGlob `key:"image" list:"any" doc:"glob on the image's name, as the runtime has it"`
	Pod       []NameGlob `key:"pod" list:"any" doc:"glob on the pod's name"`
	Namespace []NameGlob `key:"namespace" list:"any" doc:"glob on the pod's namespace"`
	Env       []PairGlob `key:"env" list:"any" doc:"glob on NAME=VALUE of a variable that the container was created with; its processes cannot change that"`
	Label     []PairGlob `key:"label" list:"any" doc:"glob on NAME=VALUE of one of docker's labels"`
}

func (m *Rooms) matches(r Room) bool {
	return (len(m.Runtime) == 0 || slices.Contains(m.Runtime, r.Runtime)) &&
		anyOf(m.Container, r.Container) &&
		anyOf(m.Image, r.Image) && anyOf(m.Pod, r.Pod) && anyOf(m.Namespace, r.Namespace) &&
		anyOf(m.Env, r.Env...) && anyOf(m.Label, r.Labels...)
}

// Container is a rule for containers, or for the commands that are put into running ones: docker exec, kubectl exec.
type Container struct {
	Name    string   `key:"name" form:"name" need:"1" doc:"unique in the list"`
	Match   Rooms    `key:"match" need:"1" doc:"all keys must hold; a list means any of"`
	Session string   `key:"session" one:"exec|container|off" doc:"exec: each command opens a session of its own; container: the container is one session, with its commands; off: none"`
	Grace   Duration `key:"grace" max:"10m" doc:"as in defaults"`
	Idle    Duration `key:"idle" least:"1s" max:"87600h" doc:"as in defaults"`
	OnExit  string   `key:"on_exit" one:"end|report" doc:"what happens to what the command started when it exits; default end"`
	Client  string   `key:"client" one:"report|end" doc:"what happens to the command, and to what it started, when the docker exec that asked for it is killed or interrupted, or its session ends; default report"`
	Brief   Duration `key:"brief" least:"1ms" max:"1h" doc:"no record of a command or container that exits this soon and leaves nothing, such as a health check; 0: of each"`

	placed
}

func (r *Container) check() (string, *wrong) {
	const hint = "the kernel ends what is in a container with its main process; omit the key"
	switch {
	case !r.Whole():
	case r.OnExit != "":
		return "on_exit", &wrong{"is for the commands in containers, not for session: container", hint}
	case r.Client != "":
		return "client", &wrong{"is for the commands in containers, not for session: container", hint}
	}
	return "", nil
}

// Whole reports whether the rule opens one session for all of a container.
func (r *Container) Whole() bool { return r.Session == "container" }

func (r *Container) Opens() bool { return r.Session != "off" }

// Agent is what the rule has in common with agent rules.
func (r *Container) Agent() *Agent {
	return &Agent{Name: r.Name, Enabled: r.Opens(), Grace: r.Grace, Idle: r.Idle,
		OnRootExit: r.OnExit, Spare: "none", placed: r.placed}
}

// Container returns the first rule that matches a container, nil if none does.
func (p *Policy) Container(r Room) *Container {
	return first(p.Containers, func(c *Container) bool { return c.Match.matches(r) })
}

// first returns the first rule of a list that is wanted, nil if none is.
func first[T any](rules []T, wanted func(*T) bool) *T {
	for i := range rules {
		if wanted(&rules[i]) {
			return &rules[i]
		}
	}
	return nil
}

// Whole reports whether a rule opens sessions for containers.
func (p *Policy) Whole() bool {
	return slices.ContainsFunc(p.Containers, func(r Container) bool { return r.Whole() })
}

// EndsWithClient is about the commands of a rule for containers.
func (p *Policy) EndsWithClient(rule string) bool {
	return slices.ContainsFunc(p.Containers,
		func(r Container) bool { return r.Name == rule && r.Client == "end" })
}

// The lists with rules that open sessions.
const (
	AgentRule     = 1
	ContainerRule = 2
)

// Opener returns the rule of that name that opens sessions, nil if there is none; list is AgentRule
// or ContainerRule. A rule for containers is returned with the keys that agent rules have too.
func (p *Policy) Opener(list uint32, name string) *Agent {
	if list != ContainerRule {
		return first(p.Agents, func(r *Agent) bool { return r.Name == name })
	}
	if r := first(p.Containers, func(r *Container) bool { return r.Name == name }); r != nil {
		return r.Agent()
	}
	return nil
}

// Openers returns all rules that open sessions, by list.
func (p *Policy) Openers() (all []*Agent) {
	for i := range p.Agents {
		if p.Agents[i].Enabled {
			all = append(all, &p.Agents[i])
		}
	}
	for i := range p.Containers {
		if p.Containers[i].Opens() {
			all = append(all, p.Containers[i].Agent())
		}
	}
	return all
}
