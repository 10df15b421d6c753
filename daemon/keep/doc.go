// Package keep hands members over to sessions that outlive their own.
package keep
