# shellcheck shell=bash
# Images that stand in for those of registries, where none can be reached: made of
# Debian's packages, under the names that the Dockerfile and compose use. The
# servers are real ones, of the versions that Debian has; the users, settings and
# volumes are as the real images have them, as far as compose uses them.
#
# Needs from the caller: engine.sh, docker, and what engine.sh needs.
: "${cache:?}" "${repository:?}" "${here:?}"

# import_image NAME CHANGE... makes an image of a tar file on standard input.
import_image() {
	local name=$1
	shift
	docker import "${@/#/--change=}" - "$name" >/dev/null || die "cannot make $name"
}

# has_image NAME
has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# make_standins makes all images that the engine does not have.
make_standins() {
	local name
	standin_golang golang:1.26
	has_image gcr.io/distroless/static-debian12:nonroot || standin_distroless gcr.io/distroless/static-debian12:nonroot
	for name in rabbitmq:4.2-management postgres:17 prom/prometheus:v3.5.0; do standin_server "$name"; done
	docker image prune --force >/dev/null
	say "stand-ins: golang:1.26 is Debian with $(go version | cut -d' ' -f3), distroless a folder, and of Debian $release" \
		"$(docker run --rm --entrypoint dpkg-query chatclub-servers -W -f '${Package} ${Version}, ' rabbitmq-server postgresql-17 prometheus)no Grafana"
}

# standin_golang is Debian with this machine's Go and the modules of go.mod. It is
# made again when these change.
standin_golang() {
	local root=$cache/golang made
	made=$(go version; sha256sum <"$repository/go.sum")
	if has_image "$1" && [[ $made == "$(cat "$cache/golang.made" 2>/dev/null)" ]]; then return; fi
	say "making $1 of this machine's Go"
	make_base
	rm -rf "$root"
	cp -a "$cache/base" "$root"
	cp -a "$(go env GOROOT)/." "$root/usr/local/go"
	(cd "$repository" && GOFLAGS=-modcacherw GOMODCACHE=$root/go GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" go mod download) ||
		die "cannot get the modules of go.mod"
	mv "$root/go/cache/download" "$root/modules"
	rm -rf "$root/go"
	tar -C "$root" -c . | import_image "$1" 'ENV PATH=/usr/local/go/bin:/usr/bin:/bin' 'ENV GOPATH=/go' 'ENV GOPROXY=file:///modules' 'ENV GOSUMDB=off' 'ENV GOTOOLCHAIN=local'
	rm -rf "$root"
	echo "$made" >"$cache/golang.made"
}

# standin_distroless has the user nonroot, CA certificates where this machine has
# them, and /tmp.
standin_distroless() {
	local root=$cache/distroless certificates=/etc/ssl/certs/ca-certificates.crt
	rm -rf "$root"
	mkdir -p "$root/etc/ssl/certs" "$root/home/nonroot"
	mkdir -m 1777 "$root/tmp"
	printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
	if [[ -e $certificates ]]; then cp -L "$certificates" "$root/etc/ssl/certs/"; fi
	chown -R 65532:65532 "$root/home/nonroot"
	tar -C "$root" -c . | import_image "$1" 'USER 65532' 'WORKDIR /home/nonroot'
}

# standin_server is Debian with RabbitMQ, PostgreSQL and Prometheus, started as the
# real image of that name would start one of them.
standin_server() {
	if ! has_image chatclub-servers; then
		make_root servers rabbitmq-server postgresql-17 prometheus
		say "making an image of the servers"
		tar -C "$cache/servers" -c . | import_image chatclub-servers
	fi
	{
		echo 'FROM chatclub-servers'
		case $1 in
		rabbitmq:*)
			echo 'COPY rabbitmq-entrypoint /usr/local/bin/'
			echo 'VOLUME /var/lib/rabbitmq'
			echo 'ENTRYPOINT ["rabbitmq-entrypoint"]'
			;;
		postgres:*)
			echo 'COPY postgres-entrypoint /usr/local/bin/'
			echo 'ENV PATH=/usr/lib/postgresql/17/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin'
			echo 'VOLUME /var/lib/postgresql/data'
			echo 'STOPSIGNAL SIGINT'
			echo 'ENTRYPOINT ["postgres-entrypoint"]'
			;;
		prom/*)
			echo 'RUN install -d -o nobody /prometheus'
			echo 'USER nobody'
			echo 'VOLUME /prometheus'
			echo 'ENTRYPOINT ["/usr/bin/prometheus"]'
			;;
		esac
	} | docker build -q -t "$1" -f - deploy/compose-test >/dev/null || die "cannot make $1"
}
