#!/bin/sh
# alone.sh TEST ARGS…: the tests of one package at a time, while those of others are built; and those
# of tracer, which take half of the time, beside them.
lock='test'
case $1 in */tracer.test) lock=tracer ;; esac
exec flock -o "$(dirname "$0")/../bin/$lock.lock" "$@"
