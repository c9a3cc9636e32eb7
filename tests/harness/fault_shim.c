// Preloaded into the server (LD_PRELOAD): makes file system calls fail on request, and keeps a journal of what was synced.
//
// Faults. SARISSA_FAULT_CONTROL names a file of `struct rule`s that the test maps and edits while the server runs. A rule fails
// the calls of one kind whose path contains its text: the first `skip` of them pass, the next `times` fail (-1: all).
//
// Journal. SARISSA_FAULT_JOURNAL names the file that gets one line for everything that happens to names and syncs below
// SARISSA_FAULT_ROOT, in the order of the kernel; a name that is taken away leaves a link to its bytes in
// SARISSA_FAULT_GRAVEYARD. A sync takes up to SARISSA_FAULT_SLOWEST_SYNC_US. From the journal the test makes the directory that a power cut would have left (power_cut.py). Calls below
// the root whose effect the journal cannot express end the process: a layer that misses something proves nothing.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define RULES 32
#define DESCRIPTORS 65536

struct rule {
  char operation[16];
  char path[108];
  int32_t error;
  int32_t skip;
  int32_t times;
  atomic_int armed;
  atomic_int matched;
  atomic_int injected;
};

static struct rule *rules;
static const char *root, *graveyard;
static size_t root_length;
static int journal = -1;
static atomic_long tokens;
static long slowest_sync_us;
static atomic_uchar tracked[DESCRIPTORS];
// Makes a change of names and its line in the journal one step.
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

static void die(const char *call, const char *what) {
  char text[PATH_MAX + 128];
  const int length = snprintf(text, sizeof text, "fault_shim: %s(%s) is not modelled\n", call, what);
  syscall(SYS_write, 2, text, (size_t)length);
  abort();
}

__attribute__((constructor)) static void load(void) {
  const char *control = getenv("SARISSA_FAULT_CONTROL");
  if (control != NULL) {
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDWR | O_CLOEXEC);
    void *mapping = (void *)syscall(SYS_mmap, NULL, sizeof(struct rule) * RULES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || mapping == MAP_FAILED) die("open", control);
    syscall(SYS_close, fd);
    rules = mapping;
  }
  const char *path = getenv("SARISSA_FAULT_JOURNAL");
  if (path == NULL) return;
  root = getenv("SARISSA_FAULT_ROOT");
  graveyard = getenv("SARISSA_FAULT_GRAVEYARD");
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || root == NULL || graveyard == NULL) die("journal", path);
  root_length = strlen(root);
  const char *slowest = getenv("SARISSA_FAULT_SLOWEST_SYNC_US");
  if (slowest != NULL) slowest_sync_us = atol(slowest);
  journal = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
  if (journal < 0) journal = fd;
}

// ---- faults

static int fails(const char *operation, const char *path) {
  if (rules == NULL || path == NULL) return 0;
  for (int i = 0; i < RULES; ++i) {
    struct rule *rule = &rules[i];
    if (!atomic_load(&rule->armed) || strcmp(rule->operation, operation) != 0) continue;
    if (strstr(path, rule->path) == NULL) continue;
    const int passage = atomic_fetch_add(&rule->matched, 1);
    if (passage < rule->skip) continue;
    if (rule->times >= 0 && passage >= rule->skip + rule->times) continue;
    atomic_fetch_add(&rule->injected, 1);
    errno = rule->error;
    return 1;
  }
  return 0;
}

static int wanted(const char *operation) {
  if (rules == NULL) return 0;
  for (int i = 0; i < RULES; ++i)
    if (atomic_load(&rules[i].armed) && strcmp(rules[i].operation, operation) == 0) return 1;
  return 0;
}

static int fd_fails(const char *operation, int fd) {
  if (!wanted(operation)) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = (ssize_t)syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return fails(operation, path);
}

// ---- journal

static int below(const char *path) {
  return journal >= 0 && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == '\0');
}

static int is_tracked(int fd) { return fd >= 0 && fd < DESCRIPTORS && atomic_load(&tracked[fd]); }

static void note(const char *format, ...) {
  char line[2 * PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (syscall(SYS_write, journal, line, (size_t)length) != length) abort();
}

static unsigned long inode(const char *path) {
  struct stat status;
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return status.st_ino;
}

static const char *leaf(const char *path) { return strrchr(path, '/') + 1; }

static unsigned long folder(const char *path) {
  char parent[PATH_MAX];
  const size_t length = (size_t)(strrchr(path, '/') - path);
  memcpy(parent, path, length);
  parent[length] = '\0';
  return inode(parent);
}

// Keeps the bytes of a file whose name is about to go.
static void bury(const char *path) {
  struct stat status;
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(status.st_mode)) return;
  char grave[PATH_MAX];
  snprintf(grave, sizeof grave, "%s/%lu", graveyard, (unsigned long)status.st_ino);
  if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, grave, 0) != 0 && errno != EEXIST) die("bury", path);
}

// ---- calls that change names

static int open_file(const char *call, int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
  if (fails("open", path)) return -1;
  if (!below(path)) {
    const int fd = next(path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS) atomic_store(&tracked[fd], 0);
    return fd;
  }
  if (flags & O_TRUNC) die(call, path);
  pthread_mutex_lock(&names);
  const int unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  const int makes = !unnamed && (flags & O_CREAT) && inode(path) == 0;
  const int fd = next(path, flags, mode);
  const int error = errno;
  struct stat status;
  if (fd >= 0 && (unnamed || makes)) {
    if (syscall(SYS_fstat, fd, &status) != 0) die(call, path);
    note("N %lu\n", (unsigned long)status.st_ino);
    if (makes) note("L %lu %lu %s\n", folder(path), (unsigned long)status.st_ino, leaf(path));
  }
  if (fd >= DESCRIPTORS) die(call, "descriptor");
  if (fd >= 0) atomic_store(&tracked[fd], 1);
  pthread_mutex_unlock(&names);
  errno = error;
  return fd;
}

#define OPEN(name)                                                     \
  int name(const char *path, int flags, ...) {                         \
    va_list arguments;                                                 \
    va_start(arguments, flags);                                        \
    const mode_t mode = va_arg(arguments, mode_t);                     \
    va_end(arguments);                                                 \
    return open_file(#name, REAL(name), path, flags, mode);            \
  }
OPEN(open)
OPEN(open64)

int close(int fd) {
  if (fd >= 0 && fd < DESCRIPTORS) atomic_store(&tracked[fd], 0);
  return REAL(close)(fd);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
  if (fails("link", to)) return -1;
  if (!below(to)) return REAL(linkat)(from_fd, from, to_fd, to, flags);
  pthread_mutex_lock(&names);
  const int result = REAL(linkat)(from_fd, from, to_fd, to, flags);
  const int error = errno;
  if (result == 0) note("L %lu %lu %s\n", folder(to), inode(to), leaf(to));
  pthread_mutex_unlock(&names);
  errno = error;
  return result;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkdir(const char *path, mode_t mode) {
  if (fails("mkdir", path)) return -1;
  if (!below(path)) return REAL(mkdir)(path, mode);
  pthread_mutex_lock(&names);
  const int result = REAL(mkdir)(path, mode);
  const int error = errno;
  if (result == 0) {
    const unsigned long made = inode(path);
    note("D %lu\n", made);
    note("L %lu %lu %s\n", folder(path), made, leaf(path));
  }
  pthread_mutex_unlock(&names);
  errno = error;
  return result;
}

int rename(const char *from, const char *to) {
  if (fails("rename", to)) return -1;
  if (!below(from) && !below(to)) return REAL(rename)(from, to);
  if (!below(from) || !below(to)) die("rename", to);
  pthread_mutex_lock(&names);
  bury(to);
  const int result = REAL(rename)(from, to);
  const int error = errno;
  if (result == 0) note("R %lu %lu\n%s\n%s\n", folder(from), folder(to), leaf(from), leaf(to));
  pthread_mutex_unlock(&names);
  errno = error;
  return result;
}

static int take_away(const char *operation, int (*next)(const char *), const char *path) {
  if (fails(operation, path)) return -1;
  if (!below(path)) return next(path);
  pthread_mutex_lock(&names);
  const unsigned long from = folder(path);
  bury(path);
  const int result = next(path);
  const int error = errno;
  if (result == 0) note("U %lu %s\n", from, leaf(path));
  pthread_mutex_unlock(&names);
  errno = error;
  return result;
}

int unlink(const char *path) { return take_away("unlink", REAL(unlink), path); }
int rmdir(const char *path) { return take_away("rmdir", REAL(rmdir), path); }

// ---- calls on descriptors

ssize_t write(int fd, const void *data, size_t size) {
  if (fd_fails("write", fd)) return -1;
  if (is_tracked(fd)) {
    struct stat status;
    if (syscall(SYS_fstat, fd, &status) != 0) die("write", "fstat");
    const int appends = ((int)syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND) != 0;
    if (!appends && (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) != status.st_size) die("write", "not at the end");
  }
  return REAL(write)(fd, data, size);
}

static int sync_file(const char *operation, int (*next)(int), int fd) {
  if (fd_fails(operation, fd)) return -1;
  if (!is_tracked(fd)) return next(fd);
  struct stat status;
  const long token = atomic_fetch_add(&tokens, 1);
  // What happened before this line is covered, what happens after it may not be.
  pthread_mutex_lock(&names);
  if (syscall(SYS_fstat, fd, &status) != 0) die(operation, "fstat");
  note("B %ld %lu %ld\n", token, (unsigned long)status.st_ino, (long)status.st_size);
  pthread_mutex_unlock(&names);
  // A disk takes its time: that is when the power goes.
  if (slowest_sync_us > 0) usleep((useconds_t)(token * 7919 % slowest_sync_us));
  const int result = next(fd);
  const int error = errno;
  if (result == 0) note("E %ld\n", token);
  errno = error;
  return result;
}

int fsync(int fd) { return sync_file("fsync", REAL(fsync), fd); }
int fdatasync(int fd) { return sync_file("fdatasync", REAL(fdatasync), fd); }

// ---- calls that only read

ssize_t pread(int fd, void *data, size_t size, off_t offset) {
  return fd_fails("pread", fd) ? -1 : REAL(pread)(fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset) {
  return fd_fails("pread", fd) ? -1 : REAL(pread64)(fd, data, size, offset);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && fd_fails("mmap", fd)) return MAP_FAILED;
  if (is_tracked(fd) && (protection & PROT_WRITE) && (flags & MAP_SHARED)) die("mmap", "shared and writable");
  return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

int stat(const char *path, struct stat *status) {
  return fails("stat", path) ? -1 : REAL(stat)(path, status);
}

DIR *opendir(const char *path) { return fails("opendir", path) ? NULL : REAL(opendir)(path); }

// ---- calls that the journal does not model

#define REFUSED_FD(result, name, parameters, arguments) \
  result name parameters {                              \
    if (is_tracked(fd)) die(#name, "descriptor");       \
    return REAL(name) arguments;                        \
  }
REFUSED_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
REFUSED_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
REFUSED_FD(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
REFUSED_FD(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
REFUSED_FD(int, ftruncate, (int fd, off_t size), (fd, size))
REFUSED_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))
REFUSED_FD(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
REFUSED_FD(int, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size))
REFUSED_FD(int, syncfs, (int fd), (fd))

ssize_t copy_file_range(int from, off64_t *from_at, int fd, off64_t *to_at, size_t size, unsigned flags) {
  if (is_tracked(fd)) die("copy_file_range", "descriptor");
  return REAL(copy_file_range)(from, from_at, fd, to_at, size, flags);
}

#define REFUSED_PATH(result, name, parameters, arguments) \
  result name parameters {                                \
    if (below(path)) die(#name, path);                    \
    return REAL(name) arguments;                          \
  }
REFUSED_PATH(int, creat, (const char *path, mode_t mode), (path, mode))
REFUSED_PATH(int, truncate, (const char *path, off_t size), (path, size))
REFUSED_PATH(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
REFUSED_PATH(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
REFUSED_PATH(int, renameat, (int fd, const char *from, int to, const char *path), (fd, from, to, path))
REFUSED_PATH(int, renameat2, (int fd, const char *from, int to, const char *path, unsigned flags), (fd, from, to, path, flags))
REFUSED_PATH(int, symlink, (const char *target, const char *path), (target, path))

int openat(int fd, const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if (below(path) && (flags & O_ACCMODE) != O_RDONLY) die("openat", path);
  return REAL(openat)(fd, path, flags, mode);
}
