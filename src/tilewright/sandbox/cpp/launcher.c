// Restricts itself, and then becomes a command:
//
//     launcher REPORT STEP=VALUE... -- COMMAND...
//
// The steps are carried out in the order in which they are given. If one of them fails, or the
// command cannot be executed, this program writes "NUMBER STEP" to the descriptor REPORT, where
// NUMBER is the error number of the system, and ends without executing anything. REPORT is closed
// when the command begins, so its reader then sees the end of the file without any text.
//
// The command receives the environment and the descriptors of this program, except REPORT and the
// descriptors that a step names.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LANDLOCK_RESTRICT_SELF 446  // on every architecture; older headers do not know it
#endif

#define NOT_EXECUTED 126
#define PATH_BYTES 4096

static int report = -1;

static _Noreturn void fail(const char *step, int error) {
  char text[128];
  int size = snprintf(text, sizeof text, "%d %.64s", error ? error : EINVAL, step);
  ssize_t written = write(report, text, (size_t)size);
  _exit(written == size ? NOT_EXECUTED : NOT_EXECUTED + 1);
}

// Read a decimal number that ends with `end`, and move `text` to the character after it. Returns 0 or -1.
static int number(char **text, char end, unsigned long long *value) {
  if (**text < '0' || **text > '9') return -1;  // strtoull would accept spaces and signs
  char *rest;
  errno = 0;
  *value = strtoull(*text, &rest, 10);
  if (errno || *rest != end) return -1;
  *text = rest + (end != '\0');
  return 0;
}

static int only_number(char *text, unsigned long long most, unsigned long long *value) {
  if (number(&text, '\0', value)) return errno = EINVAL, -1;
  return *value > most ? (errno = ERANGE, -1) : 0;
}

static int descriptor(char *text) {
  unsigned long long value;
  return only_number(text, 0x7FFFFFFF, &value) ? -1 : (int)value;
}

// limit=KIND:VALUE: a resource limit that cannot be raised again.
static int set_limit(char *text) {
  unsigned long long kind, value;
  if (number(&text, ':', &kind) || number(&text, '\0', &value)) return errno = EINVAL, -1;
  struct rlimit limit;
  if (getrlimit((int)kind, &limit)) return -1;
  if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max) limit.rlim_max = (rlim_t)value;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit((int)kind, &limit);
}

// user=ID: change from root to a user and group with this id, and give up all other groups.
static int change_user(char *text) {
  unsigned long long id;
  if (only_number(text, 0x7FFFFFFF, &id)) return -1;
  gid_t group = (gid_t)id;
  uid_t user = (uid_t)id;
#ifdef __linux__
  return setgroups(0, NULL) || setresgid(group, group, group) || setresuid(user, user, user);
#else
  return setgroups(0, NULL) || setgid(group) || setuid(user);
#endif
}

#ifdef __linux__

static int write_file(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t size = (ssize_t)strlen(text);
  ssize_t written = write(file, text, (size_t)size);
  int error = errno;
  close(file);
  errno = written < 0 ? error : EIO;
  return written == size ? 0 : -1;
}

static int map_id(const char *path, unsigned id) {
  char text[32];
  snprintf(text, sizeof text, "%u %u 1", id, id);
  return write_file(path, text);
}

// group=DESCRIPTOR: join the control group whose cgroup.procs this is. Without success, the parent
// adds up what the command uses.
static int join_group(char *text) {
  int file = descriptor(text);
  if (file < 0) return -1;
  ssize_t ignored = write(file, "0", 1);
  (void)ignored;
  return close(file);
}

// namespace=user: keep the user, but enter a namespace with its own process count.
static int enter_namespace(char *text) {
  if (strcmp(text, "user")) return errno = EINVAL, -1;
  unsigned user = geteuid(), group = getegid();
  if (unshare(CLONE_NEWUSER)) return -1;
  if (write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return -1;
  return map_id("/proc/self/uid_map", user) || map_id("/proc/self/gid_map", group) ? -1 : 0;
}

// parent=PID: be killed when this parent ends, which it may have done already.
static int die_with_parent(char *text) {
  unsigned long long parent;
  if (only_number(text, 0x7FFFFFFF, &parent)) return -1;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL)) return -1;
  return getppid() == (pid_t)parent ? 0 : (errno = ESRCH, -1);
}

// capabilities=none: give up all rights of root.
static int drop_capabilities(char *text) {
  if (strcmp(text, "none")) return errno = EINVAL, -1;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  return (int)syscall(SYS_capset, &header, none);
}

// new_privileges=none: no later program gains rights through set-user-id files.
static int forbid_new_privileges(char *text) {
  if (strcmp(text, "none")) return errno = EINVAL, -1;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

// landlock=DESCRIPTOR: apply these rules.
static int restrict_self(char *text) {
  int rules = descriptor(text);
  if (rules < 0 || syscall(LANDLOCK_RESTRICT_SELF, rules, 0)) return -1;
  return close(rules);
}

static int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

// seccomp=COUNT:HEXADECIMAL: apply a filter of COUNT instructions.
static int install_filter(char *text) {
  static struct sock_filter code[BPF_MAXINSNS];
  unsigned long long count;
  if (number(&text, ':', &count) || count == 0 || count > BPF_MAXINSNS) return errno = EINVAL, -1;
  size_t size = (size_t)count * sizeof code[0];
  if (strlen(text) != 2 * size) return errno = EINVAL, -1;
  for (size_t i = 0; i < size; i++) {
    int high = hexadecimal(text[2 * i]), low = hexadecimal(text[2 * i + 1]);
    if (high < 0 || low < 0) return errno = EINVAL, -1;
    ((unsigned char *)code)[i] = (unsigned char)(high << 4 | low);
  }
  struct sock_fprog program = {(unsigned short)count, code};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#endif

static const struct {
  const char *name;
  int (*apply)(char *value);
} STEPS[] = {
    {"limit", set_limit},
    {"user", change_user},
#ifdef __linux__
    {"group", join_group},
    {"namespace", enter_namespace},
    {"parent", die_with_parent},
    {"capabilities", drop_capabilities},
    {"new_privileges", forbid_new_privileges},
    {"landlock", restrict_self},
    {"seccomp", install_filter},
#endif
};

static void carry_out(char *word) {
  char *value = strchr(word, '=');
  if (value == NULL) fail(word, EINVAL);
  *value++ = '\0';
  for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++)
    if (strcmp(word, STEPS[i].name) == 0) {
      errno = 0;
      if (STEPS[i].apply(value)) fail(word, errno);
      return;
    }
  fail(word, ENOSYS);
}

// Execute the command, which is looked for in the folders of PATH if its name contains no slash.
// Returns only if this fails. Unlike execvp, it never passes a file to a shell.
static int execute(char **command) {
  if (strchr(command[0], '/')) {
    execv(command[0], command);
    return errno;
  }
  const char *folder = getenv("PATH");
  if (folder == NULL) folder = "/bin:/usr/bin";
  int error = ENOENT;
  for (;;) {
    size_t length = strcspn(folder, ":");
    char path[PATH_BYTES];
    int needed = snprintf(path, sizeof path, "%.*s%s%s", (int)length, folder, length ? "/" : "",
                          command[0]);
    if (needed >= 0 && needed < PATH_BYTES) {
      execv(path, command);
      if (errno != ENOENT && errno != ENOTDIR && error == ENOENT) error = errno;
    }
    folder += length;
    if (*folder++ == '\0') return error;
  }
}

int main(int count, char **words) {
  if (count < 2 || (report = descriptor(words[1])) < 0) return NOT_EXECUTED;
  if (fcntl(report, F_SETFD, FD_CLOEXEC)) return NOT_EXECUTED;
  int next = 2;
  for (; next < count && strcmp(words[next], "--"); next++) carry_out(words[next]);
  if (next + 1 >= count) fail("command", EINVAL);
  fail("command", execute(words + next + 1));
}
