#!/bin/sh
# Unpacks RabbitMQ of a release of Debian, and all that it needs, into the folder DIR,
# for a system whose own is too old. Nothing is installed, and root is not needed.
#
#   unpack.sh DIR RELEASE
#
# The programs in DIR/bin run in a mount namespace of their own, in which DIR/usr
# stands in the place of /usr. All else is the machine's, so paths, processes and
# ports are the same for them as for others. A folder that is there already is left as
# it is. One that was interrupted is not there: it has its name only once it is whole.
set -eu
dir=$1 release=$2 new=$1.new
namespace='unshare --mount'
if [ "$(id -u)" != 0 ]; then namespace='unshare --map-root-user --mount'; fi

say() { printf '%s\n' "$*" >&2; }

if [ ! -L /lib ]; then
	say "/lib is no link to /usr/lib on this machine"
	exit 1
fi
if ! reason=$($namespace -- mount --bind /usr /usr 2>&1); then
	say "this machine does not allow mounts ($reason): a container must allow them, and the folder of a chroot must be a mount point"
	exit 1
fi
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9
if [ -e "$dir" ]; then exit; fi
rm -rf "$new"
mkdir -p "$new/lists/partial" "$new/archives/partial" "$new/bin"

# apt works in that folder, with this machine's mirror and proxy.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | grep -Em 1 '^(https?|file):' || true)}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $release main" >"$new/sources"
: >"$new/status"
apt() {
	apt-get -qq -o Dir::Etc::SourceList="$new/sources" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$new/lists" -o Dir::State::Status="$new/status" \
		-o Dir::Cache::Archives="$new/archives" -o Dir::Cache::PkgCache= -o Dir::Cache::SrcPkgCache= \
		-o APT::Sandbox::User= -o APT::Update::Error-Mode=any -o Acquire::Languages=none "$@"
}
apt update
apt install --download-only --yes --no-install-recommends '?essential' rabbitmq-server
for package in "$new"/archives/*.deb; do dpkg -x "$package" "$new/root"; done
mv "$new/root/usr" "$new/usr"
rm -rf "$new/root" "$new/lists" "$new/archives" "$new/usr/share/doc" "$new/usr/share/man" "$new/usr/share/locale"

for program in /usr/lib/rabbitmq/bin/rabbitmq-server /usr/lib/rabbitmq/bin/rabbitmqctl /usr/bin/epmd; do
	name=$new/bin/${program##*/}
	cat >"$name" <<-END
		#!/bin/sh
		exec $namespace -- /bin/sh -c 'mount --bind "\$0" /usr && exec "\$@"' "$dir/usr" $program "\$@"
	END
	chmod 755 "$name"
done
mv "$new" "$dir"
