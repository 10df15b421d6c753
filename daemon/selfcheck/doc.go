// Package selfcheck proves from time to time that this host attributes and ends.
package selfcheck
