// Package cgroup gives sessions cgroups (version 2) of their own: the kernel holds their members to limits there, and
// counts what they use. A cgroup decides neither who is a member nor who is ended.
//
// Each session with limits has an outer cgroup, which has the limits and no process, and in it a leaf for its
// processes. The outer one is always below the cgroup in which the root was, so that nobody leaves a limit by
// asking for another. Its name has the root's PID and start: what a dead daemon left is found by name, and
// nothing about it is stored.
package cgroup
