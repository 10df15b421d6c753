// Package selfcheck proves regularly that this host attributes and ends processes.
package selfcheck
