package hook

// A Listener is what the kernel says of the process that listens on the daemon's socket.
type Listener int

// Of a service manager it says nothing: behind its socket the daemon may be dead or stopped.
const (
	ListenerUnknown Listener = iota
	ListenerGone             // nobody listens, or the process is stopped: no wait makes sense
	ListenerRunning
)
