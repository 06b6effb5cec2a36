#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the test kernel from Debian's linux-source package into a cache folder, once.
#
#   build-kernel.sh SOURCE.tar.xz CONFIG_FRAGMENT OUT_FOLDER
#
# OUT_FOLDER receives bzImage, config and build.log; bzImage appears last and by rename, so its presence means a
# finished build. The source tree is unpacked beside it and removed afterwards (3 GB).
set -eu

source_tar=$1
fragment=$2
out=$3

mkdir -p "$out"
tree="$out/tree"
rm -rf "$tree"
mkdir "$tree"
tar -xf "$source_tar" -C "$tree" --strip-components=1
cd "$tree"
{
    make -s tinyconfig
    scripts/kconfig/merge_config.sh -m .config "$fragment"
    make -s olddefconfig
    # An option that olddefconfig dropped would surface much later as a scheduler that does not attach.
    for option in CONFIG_SCHED_CLASS_EXT CONFIG_EXT_GROUP_SCHED CONFIG_DEBUG_INFO_BTF CONFIG_FUNCTION_TRACER; do
        grep -q "^$option=y" .config || { echo "build-kernel.sh: $option is not set after olddefconfig" >&2; exit 1; }
    done
    make -s -j"$(nproc)" bzImage
} > "$out/build.log" 2>&1 || { tail -n 20 "$out/build.log" >&2; exit 1; }
cp .config "$out/config"
cp arch/x86/boot/bzImage "$out/bzImage.new"
cd "$out"
rm -rf "$tree"
mv bzImage.new bzImage
