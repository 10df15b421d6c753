# shellcheck shell=bash
# apt.sh: to be sourced. apt on a state of its own: what is looked up and
# downloaded leaves the system's package lists, sources and packages alone.

# mirror prints the URI of this system's repository of that name.
mirror() {
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --format '$(REPO_URI)' | grep -m 1 -E "/$1/?\$"
}

# private_apt DIR SUITE…: has apt-get and apt-cache work on these suites of
# Debian from here on, with their state in DIR. Fails if they cannot be read.
private_apt() {
	local at=$1 main security suite
	shift
	main=$(mirror debian) || main=
	[ -n "$main" ] || {
		echo "apt.sh: no Debian mirror in this system's sources" >&2
		return 1
	}
	security=$(mirror debian-security) || security=${main%/}-security
	mkdir -p "$at/lists/partial" "$at/cache/archives/partial"
	: >"$at/status"
	for suite in $(printf '%s\n' "$@" | sort -u); do
		case $suite in
		*-security) echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $security $suite main" ;;
		*) echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $main $suite main" ;;
		esac
	done >"$at/sources.list"
	cat >"$at/conf" <<-EOF
		Dir::Etc::sourcelist "$at/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Dir::State "$at";
		Dir::State::Lists "$at/lists";
		Dir::State::status "$at/status";
		Dir::Cache "$at/cache";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Acquire::Retries "3";
		APT::Update::Error-Mode "any";
		APT::Sandbox::User "root";
	EOF
	export APT_CONFIG=$at/conf
	apt-get -qq update
}
