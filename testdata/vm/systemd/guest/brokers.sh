# shellcheck shell=bash disable=SC2154,SC2317
# brokers.sh: to be sourced by checks.sh. What members have systemd, at and cron
# do for them, and orphans that systemd takes in.

# agent NAME SCRIPT [OPTION…]: a session whose root runs a script and stays; in a
# unit of its own with those options.
agent() {
	local name=$1
	printf '%s\nexec sleep 10000\n' "$2" >"/tmp/$name.sh"
	shift 2
	systemd-run --quiet --unit="lngtest-$name" --service-type=exec "$@" \
		lineage run --name "$name" --grace 0s -- bash "/tmp/$name.sh"
	until_ there "$name"
}
# shown NAME TEXT: what is said of a session's delegated work has a line like that.
shown() { has "$(lineage tree "$1" | grep delegated)" "$2"; }
# brought NUMBER TEXT: why says so of the sleep of that number.
brought() { has "$(lineage why "$(the_sleep "$1")")" "$2"; }

systemd_run() { # what root has the host's systemd do
	policy 'mode: enforce'
	until_ mode enforce
	agent asks 'systemd-run --quiet --unit=lngtest-named -p Restart=always -p RestartSec=100ms sleep 3010
		systemd-run --quiet sleep 3011
		systemd-run --quiet --on-active=1h --unit=lngtest-timer sleep 3012
		systemd-run --quiet -p TasksMax=9 --scope sleep 3013 &'
	id=$(id_of asks)
	until_ brought 3010 "adopted(unit), strong"
	brought 3010 "session asks ($id), active"
	until_ brought 3011 "adopted(socket), weak, not ended with this one"
	until_ brought 3013 "session asks ($id), active" # its scope makes no stranger of it
	until_ shown asks 'delegated, unattributed: .* --unit=lngtest-timer'
	lineage tree asks
	[ "$(lineage tree asks | grep -c delegated)" -eq 3 ]

	# What a unit begins later, or again, is the session's as well.
	systemctl start lngtest-timer.service
	until_ brought 3012 "adopted(unit), strong"
	first=$(the_sleep 3010)
	systemctl kill --signal=KILL lngtest-named
	another() { [ "$(the_sleep 3010)" != "$first" ] && brought 3010 "session asks ($id), active"; }
	until_ another

	lineage end --yes asks | tee /tmp/end
	for pid in $(the_sleep 3011); do ! grep -q "^  $pid " /tmp/end || return 1; done
	until_ gone 3012
	the_sleep 3011
	systemctl stop lngtest-named # systemd begins it again
	lineage end --yes "$(lineage ls -o jsonl | sed -n "s/.*\"id\":\"\([^\"]*\)\".*\"delegated_by\":\"$id\".*/\1/p")"
	until_ gone 3011
	policy ''
	until_ mode observe
}
systemd_run_user() { # what a user has the manager of his own do
	systemctl start user@1000.service
	policy 'mode: enforce'
	until_ mode enforce
	agent theirs 'systemd-run --user --quiet --unit=lngtest-own sleep 3014
		systemd-run --user --quiet sleep 3015' --uid=tester --setenv=XDG_RUNTIME_DIR=/run/user/1000
	id=$(id_of theirs)
	until_ brought 3014 "adopted(unit), strong"
	brought 3014 "session theirs ($id), active"
	until_ brought 3015 "adopted(socket), weak, not ended with this one"
	lineage end --yes theirs
	gone 3014
	the_sleep 3015
	policy '' # nothing delegated ends where the policy is only observed
	until_ mode observe
	agent watched 'systemd-run --user --quiet --unit=lngtest-seen sleep 3016' --uid=tester --setenv=XDG_RUNTIME_DIR=/run/user/1000
	until_ brought 3016 "adopted(unit), strong, not ended with this one"
	lineage end --yes watched
	the_sleep 3016
	is "$(property user@1000.service ActiveState)" active 'the user manager'
	systemctl stop user@1000.service
	until_ gone 3016
}
at_cron() { # cron begins its jobs with the minute
	for dir in atjobs atspool; do
		install -d -o daemon -g daemon -m 1770 "/var/spool/cron/$dir"
	done
	install -d -m 1730 /var/spool/cron/crontabs
	install -o daemon -g daemon -m 600 /dev/null /var/spool/cron/atjobs/.SEQ
	systemctl start atd cron
	policy 'mode: enforce'
	until_ mode enforce
	# shellcheck disable=SC2016 # of the session
	agent later '{ echo "LINEAGE_TOKEN=$LINEAGE_TOKEN"; echo "* * * * * exec sleep 3017"; } | crontab -
		echo "sleep 3018; sleep 1" | at now
		echo "sleep 3019" | at now + 1 day'
	id=$(id_of later)
	until_ brought 3018 "session later ($id), active"
	until_ brought 3017 "session later ($id), active"
	for number in 3017 3018; do brought $number "adopted(env), strong"; done
	shown later 'delegated: .*, adopted(env), strong: .* at now asked atd'
	shown later 'delegated, not found yet: .* at now + 1 day asked atd'
	lineage tree later
	crontab -r
	lineage end --yes later | tee /tmp/end
	grep -q 'delegated, unattributed: .* at now + 1 day' /tmp/end
	gone 3017
	gone 3018
	policy ''
	until_ mode observe
	systemctl stop atd cron
}
reaper() { # an orphan that goes to systemd --user still belongs to its session
	systemctl start user@0.service
	export XDG_RUNTIME_DIR=/run/user/0
	systemd-run --user --quiet --unit=lngtest-three --service-type=exec \
		lineage run --name three --grace 0s --subreaper=false -- bash -c '(setsid sleep 3004 &) && exec sleep 13004'
	until_ the_sleep 3004
	until_ there three
	orphan=$(the_sleep 3004) manager=$(property user@0.service MainPID)
	is "$(ps -o ppid= -p "$orphan" | tr -d ' ')" "$manager" 'the orphan'"'"'s parent'
	lineage why "$orphan" | tee /tmp/why
	grep -qF "session three ($(id_of three))" /tmp/why
	grep -q "parent now $manager" /tmp/why
	lineage end --yes three
	! the_sleep 3004 || return 1
	is "$(property user@0.service ActiveState)" active 'the user manager'
	systemctl stop user@0.service
}
