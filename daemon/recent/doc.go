// Package recent has the recent events, once for all who read them.
package recent
