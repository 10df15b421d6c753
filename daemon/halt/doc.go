// Package halt stops the agents of the host: their sessions end, and the kernel side refuses new ones until that is lifted.
package halt
