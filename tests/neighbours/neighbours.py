"""Libraries of Debian that programs are started with in LD_PRELOAD."""

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Their work exceeds what a malloc with a page for each block or a file for each thread manages.
SMALL = ("date",)

# name: (package, command that runs a program with it, programs or None for all). A command is run
# with the name of the program behind it; {library} and {folder} are replaced.
NEIGHBOURS = {
    # files
    "eatmydata": ("libeatmydata1", f"env LD_PRELOAD={LIBRARIES}/libeatmydata.so", None),
    "nocache": ("nocache", "env LD_PRELOAD=/usr/lib/nocache/nocache.so", None),
    "installwatch": ("checkinstall", "env INSTW_ROOTPATH={folder} INSTW_LOGFILE={folder}/log "
                     "LD_PRELOAD=/usr/lib/checkinstall/installwatch.so", None),
    "stdbuf": ("coreutils", "stdbuf -oL", None),
    "fiu": ("fiu-utils", "fiu-run -x -c 'enable name=none'", None),
    "zzuf": ("zzuf", "zzuf -q -r 0", None),
    "tmperamental": ("tmperamental",
                     "env LD_PRELOAD=/usr/lib/tmperamental/libtmperamental.so", None),
    "umockdev": ("umockdev", f"env LD_PRELOAD={LIBRARIES}/libumockdev-preload.so.0", None),
    # time
    "faketime": ("faketime", "faketime -f '2020-02-03 04:05:06'", None),
    "faketime-threads": ("faketime", "faketime -m -f '2020-02-03 04:05:06'", None),
    "datefudge": ("datefudge", "datefudge --static '2020-02-03 04:05'", None),
    # users and roots
    "fakeroot": ("fakeroot", "fakeroot", None),
    "fakeroot-tcp": ("fakeroot", "fakeroot-tcp", None),
    "fakechroot": ("fakechroot", "fakechroot", None),
    "uid_wrapper": ("libuid-wrapper", "env UID_WRAPPER=1 UID_WRAPPER_ROOT=1 "
                    f"LD_PRELOAD={LIBRARIES}/libuid_wrapper.so", None),
    "nss_wrapper": ("libnss-wrapper", "env NSS_WRAPPER_PASSWD=/etc/passwd "
                    f"NSS_WRAPPER_GROUP=/etc/group LD_PRELOAD={LIBRARIES}/libnss_wrapper.so", None),
    "pam_wrapper": ("libpam-wrapper",
                    f"env PAM_WRAPPER=1 LD_PRELOAD={LIBRARIES}/libpam_wrapper.so", None),
    "snoopy": ("snoopy", "env LD_PRELOAD=/lib/x86_64-linux-gnu/libsnoopy.so.0", None),
    "authbind": ("authbind", "authbind", None),
    # network
    "socket_wrapper": ("libsocket-wrapper", "env SOCKET_WRAPPER_DIR={folder} "
                       f"LD_PRELOAD={LIBRARIES}/libsocket_wrapper.so", None),
    "resolv_wrapper": ("libresolv-wrapper",
                       f"env LD_PRELOAD={LIBRARIES}/libresolv_wrapper.so", None),
    "torsocks": ("torsocks", "torsocks", None),
    "tsocks": ("tsocks", f"env LD_PRELOAD={LIBRARIES}/libtsocks.so", None),
    "dsocks": ("libdsocksd0", f"env LD_PRELOAD={LIBRARIES}/libdsocksd.so.0", None),
    "proxychains": ("proxychains4", "proxychains4 -q", None),
    "trickle": ("trickle", "trickle -s -d 10000 -u 10000", None),
    "keepalive": ("libkeepalive0", "env LD_PRELOAD=/usr/lib/libkeepalive.so.0", None),
    # sound, video, windows
    "pulsedsp": ("pulseaudio-utils",
                 f"env LD_PRELOAD={LIBRARIES}/pulseaudio/libpulsedsp.so", None),
    "aoss": ("alsa-oss", "aoss", None),
    "v4l1": ("libv4l-0", f"env LD_PRELOAD={LIBRARIES}/libv4l/v4l1compat.so", None),
    "v4l2": ("libv4l-0", f"env LD_PRELOAD={LIBRARIES}/libv4l/v4l2convert.so", None),
    "gtk3-nocsd": ("gtk3-nocsd", "gtk3-nocsd", None),
    "gamemode": ("libgamemodeauto0", f"env LD_PRELOAD={LIBRARIES}/libgamemodeauto.so.0", None),
    # what watches or replaces malloc
    "heaptrack": ("libheaptrack", "env DUMP_HEAPTRACK_OUTPUT=/dev/null "
                  "LD_PRELOAD=/usr/lib/heaptrack/libheaptrack_preload.so", None),
    "lttng-libc": ("liblttng-ust1",
                   f"env LD_PRELOAD={LIBRARIES}/liblttng-ust-libc-wrapper.so.1", None),
    "lttng-pthread": ("liblttng-ust1",
                      f"env LD_PRELOAD={LIBRARIES}/liblttng-ust-pthread-wrapper.so.1", None),
    "memusage": ("libc-devtools",
                 f"env MEMUSAGE_NO_TIMER=1 LD_PRELOAD={LIBRARIES}/libmemusage.so", None),
    "malloc_debug": ("libc6", f"env LD_PRELOAD=/lib/x86_64-linux-gnu/libc_malloc_debug.so.0 "
                     "GLIBC_TUNABLES=glibc.malloc.check=3", None),
    "hugetlbfs": ("libhugetlbfs0",
                  f"env HUGETLB_MORECORE=thp LD_PRELOAD={LIBRARIES}/libhugetlbfs.so.0", None),
    "jemalloc": ("libjemalloc2", f"env LD_PRELOAD={LIBRARIES}/libjemalloc.so.2", None),
    "tcmalloc": ("libtcmalloc-minimal4",
                 f"env LD_PRELOAD={LIBRARIES}/libtcmalloc_minimal.so.4", None),
    "profiler": ("libgoogle-perftools4", f"env LD_PRELOAD={LIBRARIES}/libprofiler.so.0", None),
    "mimalloc": ("libmimalloc2.0", f"env LD_PRELOAD={LIBRARIES}/libmimalloc.so.2", None),
    "efence": ("electric-fence", "env LD_PRELOAD=/usr/lib/libefence.so.0", SMALL),
    # sanitizers insist on being the first; programs without their instrumentation. Behind Keel,
    # what it replaces of the C library (getline, realpath) still returns blocks of its own malloc.
    "asan": ("libasan8", "env ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 "
             f"KEEL_FOREIGN_FREE=off LD_PRELOAD={LIBRARIES}/libasan.so.8", None),
}
