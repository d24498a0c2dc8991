// SPDX-License-Identifier: Apache-2.0
#include "jit/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace carat::jit {

File::~File() {
    if (descriptor_ >= 0) close(descriptor_);
}

Status system_failure(const char* action, const std::string& path) {
    const int code = errno;
    return fail(CARAT_IO_ERROR, "cannot {} {}: {}", action, path, std::generic_category().message(code));
}

Status make_directories(const std::string& path) {
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
    const size_t slash = path.find_last_of('/');
    if (errno != ENOENT || slash == path.npos || slash == 0) return system_failure("create directory", path);
    CARAT_TRY(make_directories(path.substr(0, slash)));
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
    return system_failure("create directory", path);
}

Status check_private(const std::string& path) {
    struct stat link {
    }, target{};
    if (lstat(path.c_str(), &link) != 0 || stat(path.c_str(), &target) != 0) return system_failure("look at", path);
    if (!S_ISDIR(target.st_mode)) return fail(CARAT_IO_ERROR, "{} is not a directory", path);
    for (const struct stat& it : {link, target})
        if (it.st_uid != geteuid())
            return fail(CARAT_IO_ERROR,
                        "{} belongs to user {} and not to you (user {}), and code would be loaded from it", path,
                        it.st_uid, geteuid());
    if ((target.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(CARAT_IO_ERROR,
                    "{} can be written to by others (mode {:o}), and code would be loaded from it: 'chmod go-w' it",
                    path, target.st_mode & 07777);
    return {};
}

Status write_all(const File& file, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return system_failure("write", path);
        bytes = bytes.subspan(size_t(count));
    }
    return fsync(file.get()) == 0 ? Status() : system_failure("write", path);
}

Status publish(std::string temporary, const std::string& path, std::span<const std::byte> bytes, mode_t mode) {
    Status status;
    {
        const File file(mkostemp(temporary.data(), O_CLOEXEC));
        if (!file) return system_failure("create", temporary);
        status = write_all(file, bytes, temporary);
        if (status.ok() && fchmod(file.get(), mode) != 0) status = system_failure("set the mode of", temporary);
    }
    if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = system_failure("publish", path);
    if (!status.ok()) {
        unlink(temporary.c_str());
        return status;
    }
    // Best effort: makes the rename survive a power cut.
    const size_t slash = path.find_last_of('/');
    const std::string directory = slash == path.npos ? "." : path.substr(0, slash + 1);
    if (const File parent(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); parent) fsync(parent.get());
    return {};
}

Result<std::vector<std::byte>> read_file(const std::string& path, size_t limit, bool mark_used) {
    const File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat facts {};
    if (!file || fstat(file.get(), &facts) != 0) return system_failure("open", path);
    if (!S_ISREG(facts.st_mode) || uint64_t(facts.st_size) > limit)
        return fail(CARAT_IO_ERROR, "{} is not a file of at most {} bytes", path, limit);
    std::vector<std::byte> bytes(size_t(facts.st_size));
    size_t have = 0;
    while (have < bytes.size()) {
        const ssize_t count = ::read(file.get(), bytes.data() + have, bytes.size() - have);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return system_failure("read", path);
        if (count == 0) break;  // it was cut meanwhile
        have += size_t(count);
    }
    bytes.resize(have);
    // relatime updates the access time once a day at most, too coarse to tell what was used last.
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    if (mark_used) (void)futimens(file.get(), times);
    return bytes;
}

Result<std::vector<std::byte>> read_at(const File& file, uint64_t offset, uint64_t bytes, const std::string& path) {
    std::vector<std::byte> data(bytes);
    for (uint64_t have = 0; have < bytes;) {
        const ssize_t count = ::pread(file.get(), data.data() + have, bytes - have, off_t(offset + have));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return system_failure("read", path);
        if (count == 0) return fail(CARAT_IO_ERROR, "{} is cut short", path);
        have += uint64_t(count);
    }
    return data;
}

bool remove_if_ours(const std::string& path) {
    struct stat facts {};
    return lstat(path.c_str(), &facts) == 0 && facts.st_uid == geteuid() && unlink(path.c_str()) == 0;
}

}  // namespace carat::jit
