# Debian packages of any release and architecture, without a change to the machine: source it from the repository's root.
# shellcheck shell=bash

# private_apt FOLDER ARCHITECTURE APT-COMMAND...: with settings, lists and a cache of its own below FOLDER. Any user may.
private_apt() {
  local folder=$1 architecture=$2 command=$3
  shift 3
  mkdir -p "$folder"/{lists/partial,archives/partial}
  : >"$folder/status"
  "$command" -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
    -o Dir::State::status="$folder/status" -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder" \
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::main=/dev/null \
    -o Dir::Etc::parts=/dev/null -o Dir::Etc::preferencesparts=/dev/null "$@"
}

# apt_sources FOLDER TYPE RELEASE: the packages (TYPE deb) or sources (deb-src) of a Debian release with its security
# updates, from where this machine has its own packages.
apt_sources() {
  local folder=$1 type=$2 release=$3 own archive security
  # shellcheck disable=SC1091
  own=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
  archive=$(apt_mirror "$own")
  security=$(apt_mirror "$own-security")
  if [[ -z $archive || -z $security ]]; then
    echo "APT knows no mirror of $own and $own-security: run apt-get update" >&2
    return 1
  fi
  mkdir -p "$folder"
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  printf "$type [signed-by=$keyring] %s\n" "$archive $release main" "$security $release-security main" \
    >"$folder/sources.list"
}

# apt_mirror SUITE
apt_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    while read -r suite address; do
      [[ $suite != "$1" ]] || printf '%s\n' "$address"
    done | head -n 1
}
