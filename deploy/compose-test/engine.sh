# shellcheck shell=bash
# A Docker engine for machines that have none: root, Linux and Debian's packages
# are enough. It runs in namespaces of its own (mounts, network, processes), below
# $cache/engine, so that nothing of the machine is touched or installed: not its
# network, not its containers. Its containers reach one another and nothing else.
#
# Needs from the caller: $cache, $repository, $here, say, die.
: "${cache:?}" "${repository:?}" "${here:?}"

release=trixie # of Debian; its docker, compose and buildx are used
engine=        # process id of the engine's first process, as seen from here
engine_parent= # and of unshare, with which all of it ends

# debian_mirror prints the mirror that this machine's apt takes Debian from, if
# debootstrap can use it too. apt knows that only after an update.
debian_mirror() {
	local mirror=${DEBIAN_MIRROR:-}
	[[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | grep -Em 1 '^(https?|file):') || true
	mirror=${mirror:-http://deb.debian.org/debian}
	echo "${mirror%/}"
}

# make_base makes $cache/base, the smallest Debian. It is the ground of the engine
# and of the images that stand in for others.
make_base() {
	[[ -e $cache/base.made ]] && return
	local mirror tool=debootstrap
	apt-get -q update >"$cache/log" 2>&1 || say "apt-get update: $(tail -n 1 "$cache/log")"
	mirror=$(debian_mirror)
	say "unpacking Debian $release of $mirror (once, below $cache)"
	if ! command -v debootstrap >/dev/null; then # a script, which need not be installed
		(cd "$cache" && rm -rf debootstrap* && apt-get -q download debootstrap &&
			dpkg -x debootstrap_*.deb debootstrap) >"$cache/log" 2>&1 || die "no debootstrap: $(tail -n 3 "$cache/log")"
		export DEBOOTSTRAP_DIR=$cache/debootstrap/usr/share/debootstrap
		tool=$cache/debootstrap/usr/sbin/debootstrap
	fi
	rm -rf "$cache/base"
	"$tool" --variant=minbase "$release" "$cache/base" "$mirror" >"$cache/log" 2>&1 || die "debootstrap: $(tail -n 3 "$cache/log")"
	# No service starts when its package is installed, and nothing is synced to disk.
	printf '#!/bin/sh\nexit 101\n' >"$cache/base/usr/sbin/policy-rc.d"
	chmod 755 "$cache/base/usr/sbin/policy-rc.d"
	echo force-unsafe-io >"$cache/base/etc/dpkg/dpkg.cfg.d/unsafe-io"
	touch "$cache/base.made"
}

# make_root NAME PACKAGE... makes $cache/NAME: the base with more packages.
make_root() {
	local name=$1
	shift
	[[ -e $cache/$name.made ]] && return
	make_base
	say "installing $* into $cache/$name (once)"
	rm -rf "${cache:?}/$name"
	cp -a "$cache/base" "$cache/$name"
	# PostgreSQL's package would make a cluster, whose place is a volume here.
	mkdir -p "$cache/$name/etc/postgresql-common"
	echo 'create_main_cluster = false' >"$cache/$name/etc/postgresql-common/createcluster.conf"
	DEBIAN_FRONTEND=noninteractive chroot "$cache/$name" apt-get install -qy --no-install-recommends "$@" >"$cache/log" 2>&1 ||
		die "apt-get install: $(tail -n 3 "$cache/log")"
	rm -rf "$cache/$name"/var/cache/apt/archives/*.deb "$cache/$name"/var/lib/apt/lists/* "$cache/$name"/usr/share/doc/*
	touch "$cache/$name.made"
}

# start_engine starts dockerd and waits until it answers.
start_engine() {
	make_root engine docker.io docker-cli docker-compose docker-buildx iptables iproute2 curl jq
	mkdir -p "$cache"/engine/{src,old,var/lib/docker} "$cache/docker"
	ln -sf iptables-legacy "$cache/engine/usr/sbin/iptables"
	ln -sf ip6tables-legacy "$cache/engine/usr/sbin/ip6tables"
	rm -f "$cache/engine/run/docker.pid" "$cache/engine/run/docker/containerd/containerd.pid"
	# --kill-child: when this process ends, however that is, all of the engine ends.
	unshare --mount --net --pid --fork --kill-child=KILL "$here/engine-init" "$cache/engine" "$repository" "$cache/docker" 2>"$cache/log" &
	engine_parent=$!
	for _ in {1..100}; do
		engine=$(cat "/proc/$engine_parent/task/$engine_parent/children" 2>/dev/null) && engine=${engine%% *}
		if [[ -n $engine ]] && in_engine docker version >/dev/null 2>&1; then return; fi
		kill -0 "$engine_parent" 2>/dev/null || die "the engine ended: $(cat "$cache/log"; tail -n 5 "$cache/engine/var/log/dockerd.log" 2>&1)"
		sleep 0.3
	done
	die "the engine does not answer: $(tail -n 5 "$cache/engine/var/log/dockerd.log" 2>&1)"
}

# in_engine COMMAND... runs a command beside the engine, in the repository.
in_engine() {
	nsenter --target "$engine" --mount --net --pid -- env -C /src HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin "$@"
}

# stop_engine ends the engine and all that ran in it.
stop_engine() {
	[[ -n $engine_parent ]] || return 0
	[[ -n $engine ]] && kill -TERM "$engine" 2>/dev/null
	for _ in {1..50}; do
		kill -0 "$engine_parent" 2>/dev/null || break
		sleep 0.2
	done
	kill -KILL "$engine_parent" 2>/dev/null
	wait "$engine_parent" 2>/dev/null
	engine_parent=
	# All that it leaves on the machine, and only until the next start of that.
	find /sys/fs/cgroup -depth -type d -path '*/chatclub-compose-test*' -exec rmdir {} + 2>/dev/null
	return 0
}
