/* A disk that fails on command, for two files: the store and its journal.

   Preload this (LD_PRELOAD) into a process. It intercepts every write and sync of files named "store.mdb" (or
   "<name>.store.mdb", which a test uses for files of inboxes) or "store.journal". KITH_FAULT_FILE names a file with the
   order. It is read at each call; if it does not exist, nothing fails. Its first word is the fault, the second the
   amount:

     ENOSPC [bytes]   The disk is full: the store cannot grow beyond `bytes`. Without `bytes`, neither file can grow
                      beyond its size. A write across the bound is cut short first, as file systems do. Writes inside
                      the file succeed. statvfs (of any path) and posix_fallocate (of the store) report the same.
     ENOSPC-ALL       Every write fails, even one that overwrites, as on a file system that never writes in place.
     EIO-SYNC [once]  fsync and fdatasync fail. `once` removes the order after the first failure.
     EIO-STORE [once], EIO-JOURNAL [once]   The same for one of the files.
     SLOW ms          Every sync takes `ms` longer.

   If KITH_FAULT_TRACE names a file, every write, sync and truncation of the two files is appended to it, and every
   write to stdout: a header {mark, kind, file, offset, length}, then the bytes. A process that is killed may leave an
   incomplete record at the end, of a step that it did not make. Kinds: W, a write begins; B, a sync begins; S, it has
   ended (B and S have the id of the thread as `offset`); T, truncated to `offset`; A, written to stdout. Files: 1 is
   the store, 2 its journal.

   msync is not intercepted: LMDB calls it only with MDB_WRITEMAP, which Kith does not use.
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const char STORE[] = "store.mdb", COPY[] = "store.mdb.part", JOURNAL[] = "store.journal";

static const uint64_t MARK = 0x5ea1ed0fd15c0b57;

enum { NEITHER, IN_STORE, IN_JOURNAL };

struct order {
    char what[16];
    char much[32];
};

struct record {
    uint64_t mark, kind, file, offset, length;
};

static int file_of(int fd)
{
    char link[64], path[PATH_MAX];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    errno = saved;
    if (length <= 0)
        return NEITHER;
    path[length < (ssize_t)sizeof path ? length : (ssize_t)sizeof path - 1] = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strchr(name, '.');
    if (strcmp(name, STORE) == 0 || strcmp(name, COPY) == 0 || (dot && strcmp(dot + 1, STORE) == 0))
        return IN_STORE;
    return strcmp(name, JOURNAL) == 0 ? IN_JOURNAL : NEITHER;
}

/* The current order. `what` is empty if there is none. */
static struct order ordered(void)
{
    struct order order = {"", ""};
    char text[64] = "";
    const char *path = getenv("KITH_FAULT_FILE");
    int saved = errno;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof text - 1);
        close(fd);
        if (length > 0)
            sscanf(text, "%15s %31s", order.what, order.much);
    }
    errno = saved;
    return order;
}

static int ordered_to(const struct order *order, const char *what)
{
    return strcmp(order->what, what) == 0;
}

static void obeyed(const struct order *order)
{
    if (strcmp(order->much, "once") == 0)
        unlink(getenv("KITH_FAULT_FILE"));
}

static void slow_down(const struct order *order)
{
    if (ordered_to(order, "SLOW")) {
        long ms = atol(order->much);
        struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
}

static void trace(char kind, int file, uint64_t offset, const struct iovec *parts, int count, size_t length)
{
    static int fd = -2;
    if (fd == -2) {
        const char *path = getenv("KITH_FAULT_TRACE");
        fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    }
    if (fd < 0)
        return;
    int saved = errno;
    struct record record = {MARK, (uint64_t)kind, (uint64_t)file, offset, length};
    size_t total = sizeof record + length, at = sizeof record;
    char *whole = malloc(total);
    if (whole == NULL)
        abort();
    memcpy(whole, &record, sizeof record);
    for (int i = 0; i < count && at < total; i++) {
        size_t size = parts[i].iov_len < total - at ? parts[i].iov_len : total - at;
        memcpy(whole + at, parts[i].iov_base, size);
        at += size;
    }
    if (syscall(SYS_write, fd, whole, total) != (ssize_t)total)
        abort();
    free(whole);
    errno = saved;
}

/* Makes every write of the two files: at `offset`, or at the descriptor's position if `offset` is -1. */
static ssize_t put(int fd, const struct iovec *parts, int count, off_t offset)
{
    struct order order = ordered();
    struct iovec cut[IOV_MAX];
    int file = file_of(fd), moves = offset < 0;
    off_t at = moves ? lseek(fd, 0, SEEK_CUR) : offset;
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (ordered_to(&order, "ENOSPC-ALL")) {
        errno = ENOSPC;
        return -1;
    }
    if (ordered_to(&order, "ENOSPC") && (file == IN_STORE || !order.much[0])) {
        struct stat now;
        fstat(fd, &now);
        off_t bound = order.much[0] ? atoll(order.much) : now.st_size;
        if (bound < now.st_size)
            bound = now.st_size;
        if (at >= bound) {
            errno = ENOSPC;
            return -1;
        }
        size_t room = (size_t)(bound - at);
        if (length > room) {
            int kept = 0;
            for (length = 0; kept < count && length < room; kept++) {
                cut[kept] = parts[kept];
                if (cut[kept].iov_len > room - length)
                    cut[kept].iov_len = room - length;
                length += cut[kept].iov_len;
            }
            parts = cut;
            count = kept;
        }
    }
    /* Trace first, because a power cut may leave any part of a write that has begun. */
    trace('W', file, (uint64_t)at, parts, count, length);
    return moves ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
}

static ssize_t put_one(int fd, const void *bytes, size_t length, off_t offset)
{
    struct iovec part = {(void *)bytes, length};
    return put(fd, &part, 1, offset);
}

static int sync_file(int fd, int file, long call)
{
    struct order order = ordered();
    slow_down(&order);
    if (ordered_to(&order, "EIO-SYNC") || ordered_to(&order, file == IN_STORE ? "EIO-STORE" : "EIO-JOURNAL")) {
        obeyed(&order);
        errno = EIO;
        return -1;
    }
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    trace('B', file, thread, NULL, 0, 0);
    int failed = (int)syscall(call, fd);
    if (!failed)
        trace('S', file, thread, NULL, 0, 0);
    return failed;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    if (file_of(fd))
        return put_one(fd, bytes, length, -1);
    if (fd == STDOUT_FILENO) {
        struct iovec part = {(void *)bytes, length};
        trace('A', NEITHER, 0, &part, 1, length);
    }
    return syscall(SYS_write, fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return file_of(fd) ? put(fd, parts, count, -1) : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return file_of(fd) ? put_one(fd, bytes, length, offset) : syscall(SYS_pwrite64, fd, bytes, length, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return file_of(fd) ? put(fd, parts, count, offset) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return pwrite(fd, bytes, length, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return pwritev(fd, parts, count, offset);
}

int fsync(int fd)
{
    int file = file_of(fd);
    return file ? sync_file(fd, file, SYS_fsync) : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    int file = file_of(fd);
    return file ? sync_file(fd, file, SYS_fdatasync) : (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t length)
{
    if (file_of(fd)) {
        struct order order = ordered();
        struct stat now;
        fstat(fd, &now);
        if (ordered_to(&order, "ENOSPC-ALL") || (ordered_to(&order, "ENOSPC") && length > now.st_size)) {
            errno = ENOSPC;
            return -1;
        }
        trace('T', file_of(fd), (uint64_t)length, NULL, 0, 0);
    }
    return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    struct order order = ordered();
    struct stat now;
    if (!file_of(fd) || strncmp(order.what, "ENOSPC", 6) != 0)
        return syscall(SYS_fallocate, fd, 0, offset, length) ? errno : 0;
    fstat(fd, &now);
    off_t bound = order.much[0] ? atoll(order.much) : now.st_size;
    return offset + length > (bound > now.st_size ? bound : now.st_size) ? ENOSPC : 0;
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
    return posix_fallocate(fd, offset, length);
}

static int tell_room(int failed, const struct statfs *real, struct statvfs *told)
{
    struct order order = ordered();
    if (failed)
        return failed;
    memset(told, 0, sizeof *told);
    told->f_bsize = (unsigned long)real->f_bsize;
    told->f_frsize = (unsigned long)(real->f_frsize ? real->f_frsize : real->f_bsize);
    told->f_blocks = real->f_blocks;
    told->f_files = real->f_files;
    told->f_ffree = told->f_favail = real->f_ffree;
    told->f_namemax = (unsigned long)real->f_namelen;
    if (strncmp(order.what, "ENOSPC", 6) != 0) {
        told->f_bfree = real->f_bfree;
        told->f_bavail = real->f_bavail;
    }
    return 0;
}

int statvfs(const char *path, struct statvfs *told)
{
    struct statfs real;
    return tell_room(statfs(path, &real), &real, told);
}

int statvfs64(const char *path, struct statvfs64 *told)
{
    return statvfs(path, (struct statvfs *)told);
}

int fstatvfs(int fd, struct statvfs *told)
{
    struct statfs real;
    return tell_room(fstatfs(fd, &real), &real, told);
}

int fstatvfs64(int fd, struct statvfs64 *told)
{
    return fstatvfs(fd, (struct statvfs *)told);
}
