//go:build !linux

package main

import (
	"os"
	"runtime"

	"github.com/lineage-ebpf/lineage/api"
)

func dispatch([]string) {}

// thisHost is a host on which nothing can be traced. It can ask a daemon behind a
// forwarded socket.
func thisHost() host {
	return host{version: version, euid: os.Geteuid, doctor: func(string) api.Doctor {
		return api.Doctor{Kernel: runtime.GOOS, Items: []api.DoctorItem{{
			Feature: "Linux", Required: true, Why: "sessions are tracked by the Linux kernel", Do: "run it on Linux 5.10 or later",
		}}}
	}}
}
