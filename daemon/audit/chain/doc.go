// Package chain joins the lines of the audit log by hashes, and checks that none was changed or is
// missing. It has no key: who can write the log can replace it as a whole, or cut its tail. A head
// that was noted elsewhere shows that, too.
package chain
