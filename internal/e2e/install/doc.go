// Package install tests make install and make uninstall on a folder.
package install
