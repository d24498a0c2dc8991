// SPDX-License-Identifier: Apache-2.0
// wgmma.cuh: Hopper's matrix instruction. A warpgroup multiplies A (64 x 16) by B (16 x N), both in shared memory, into
// f32 accumulators in its registers, asynchronously: m64nNk16, N = 8 to 256 in steps of 8, in max(N/2, 16 + N/4) clocks,
// so at full rate from N = 64 on.
//
// Accumulators: each of the 4 warps holds 16 rows. d[4j], d[4j + 1] are row lane / 4, columns 8j + 2 (lane % 4) and the
// next; d[4j + 2], d[4j + 3] the same 8 rows further down.
//
// Order: wgmma_fence() before the first instruction after registers were touched by others; multiply() as often as
// wished; wgmma_commit(); wgmma_wait<N>() until at most N commits are pending. Accumulators must not be touched in
// between, or the compiler makes every instruction wait (warning C7515).
#pragma once

#include <shared/gemm_params.h>

namespace carat_kernel {

using namespace carat_shared;

__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// multiply(d, a, b): d += a b. a and b are matrix descriptors (shared/matrix_descriptor.h).
template <int kN, int kType, bool kKMajorA, bool kKMajorB>
struct Wgmma;

// clang-format off
// The operand lists of the instructions, each made from the one before.
#define CARAT_D8 "%0,%1,%2,%3"
#define CARAT_F8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define CARAT_D16 CARAT_D8 ",%4,%5,%6,%7"
#define CARAT_F16 CARAT_F8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define CARAT_D24 CARAT_D16 ",%8,%9,%10,%11"
#define CARAT_F24 CARAT_F16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define CARAT_D32 CARAT_D24 ",%12,%13,%14,%15"
#define CARAT_F32 CARAT_F24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define CARAT_D40 CARAT_D32 ",%16,%17,%18,%19"
#define CARAT_F40 CARAT_F32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define CARAT_D48 CARAT_D40 ",%20,%21,%22,%23"
#define CARAT_F48 CARAT_F40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define CARAT_D56 CARAT_D48 ",%24,%25,%26,%27"
#define CARAT_F56 CARAT_F48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define CARAT_D64 CARAT_D56 ",%28,%29,%30,%31"
#define CARAT_F64 CARAT_F56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define CARAT_D72 CARAT_D64 ",%32,%33,%34,%35"
#define CARAT_F72 CARAT_F64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define CARAT_D80 CARAT_D72 ",%36,%37,%38,%39"
#define CARAT_F80 CARAT_F72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define CARAT_D88 CARAT_D80 ",%40,%41,%42,%43"
#define CARAT_F88 CARAT_F80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define CARAT_D96 CARAT_D88 ",%44,%45,%46,%47"
#define CARAT_F96 CARAT_F88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define CARAT_D104 CARAT_D96 ",%48,%49,%50,%51"
#define CARAT_F104 CARAT_F96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define CARAT_D112 CARAT_D104 ",%52,%53,%54,%55"
#define CARAT_F112 CARAT_F104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define CARAT_D120 CARAT_D112 ",%56,%57,%58,%59"
#define CARAT_F120 CARAT_F112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define CARAT_D128 CARAT_D120 ",%60,%61,%62,%63"
#define CARAT_F128 CARAT_F120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define CARAT_D136 CARAT_D128 ",%64,%65,%66,%67"
#define CARAT_F136 CARAT_F128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define CARAT_D144 CARAT_D136 ",%68,%69,%70,%71"
#define CARAT_F144 CARAT_F136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define CARAT_D152 CARAT_D144 ",%72,%73,%74,%75"
#define CARAT_F152 CARAT_F144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define CARAT_D160 CARAT_D152 ",%76,%77,%78,%79"
#define CARAT_F160 CARAT_F152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define CARAT_D168 CARAT_D160 ",%80,%81,%82,%83"
#define CARAT_F168 CARAT_F160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define CARAT_D176 CARAT_D168 ",%84,%85,%86,%87"
#define CARAT_F176 CARAT_F168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define CARAT_D184 CARAT_D176 ",%88,%89,%90,%91"
#define CARAT_F184 CARAT_F176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define CARAT_D192 CARAT_D184 ",%92,%93,%94,%95"
#define CARAT_F192 CARAT_F184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define CARAT_D200 CARAT_D192 ",%96,%97,%98,%99"
#define CARAT_F200 CARAT_F192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define CARAT_D208 CARAT_D200 ",%100,%101,%102,%103"
#define CARAT_F208 CARAT_F200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define CARAT_D216 CARAT_D208 ",%104,%105,%106,%107"
#define CARAT_F216 CARAT_F208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define CARAT_D224 CARAT_D216 ",%108,%109,%110,%111"
#define CARAT_F224 CARAT_F216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define CARAT_D232 CARAT_D224 ",%112,%113,%114,%115"
#define CARAT_F232 CARAT_F224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define CARAT_D240 CARAT_D232 ",%116,%117,%118,%119"
#define CARAT_F240 CARAT_F232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define CARAT_D248 CARAT_D240 ",%120,%121,%122,%123"
#define CARAT_F248 CARAT_F240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define CARAT_D256 CARAT_D248 ",%124,%125,%126,%127"
#define CARAT_F256 CARAT_F248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// A, B, TA, TB: the numbers of the operands after the accumulators.
#define CARAT_WGMMA_TYPE(N, TYPE, A, B, TA, TB)                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE           \
                 " {" CARAT_D##N "}, %" #A ", %" #B ", 1, 1, 1, %" #TA ", %" #TB ";"       \
                 : CARAT_F##N                                                              \
                 : "l"(a), "l"(b), "n"(kKMajorA ? 0 : 1), "n"(kKMajorB ? 0 : 1))

#define CARAT_WGMMA(N, A, B, TA, TB)                                                       \
    template <int kType, bool kKMajorA, bool kKMajorB>                                     \
    struct Wgmma<N, kType, kKMajorA, kKMajorB> {                                           \
        __device__ static void multiply(float (&d)[N / 2], u64 a, u64 b) {                 \
            if constexpr (kType == kTypeBf16)                                              \
                CARAT_WGMMA_TYPE(N, "bf16", A, B, TA, TB);                                 \
            else                                                                           \
                CARAT_WGMMA_TYPE(N, "f16", A, B, TA, TB);                                  \
        }                                                                                  \
    };

CARAT_WGMMA(8, 4, 5, 6, 7)
CARAT_WGMMA(16, 8, 9, 10, 11)
CARAT_WGMMA(24, 12, 13, 14, 15)
CARAT_WGMMA(32, 16, 17, 18, 19)
CARAT_WGMMA(40, 20, 21, 22, 23)
CARAT_WGMMA(48, 24, 25, 26, 27)
CARAT_WGMMA(56, 28, 29, 30, 31)
CARAT_WGMMA(64, 32, 33, 34, 35)
CARAT_WGMMA(72, 36, 37, 38, 39)
CARAT_WGMMA(80, 40, 41, 42, 43)
CARAT_WGMMA(88, 44, 45, 46, 47)
CARAT_WGMMA(96, 48, 49, 50, 51)
CARAT_WGMMA(104, 52, 53, 54, 55)
CARAT_WGMMA(112, 56, 57, 58, 59)
CARAT_WGMMA(120, 60, 61, 62, 63)
CARAT_WGMMA(128, 64, 65, 66, 67)
CARAT_WGMMA(136, 68, 69, 70, 71)
CARAT_WGMMA(144, 72, 73, 74, 75)
CARAT_WGMMA(152, 76, 77, 78, 79)
CARAT_WGMMA(160, 80, 81, 82, 83)
CARAT_WGMMA(168, 84, 85, 86, 87)
CARAT_WGMMA(176, 88, 89, 90, 91)
CARAT_WGMMA(184, 92, 93, 94, 95)
CARAT_WGMMA(192, 96, 97, 98, 99)
CARAT_WGMMA(200, 100, 101, 102, 103)
CARAT_WGMMA(208, 104, 105, 106, 107)
CARAT_WGMMA(216, 108, 109, 110, 111)
CARAT_WGMMA(224, 112, 113, 114, 115)
CARAT_WGMMA(232, 116, 117, 118, 119)
CARAT_WGMMA(240, 120, 121, 122, 123)
CARAT_WGMMA(248, 124, 125, 126, 127)
CARAT_WGMMA(256, 128, 129, 130, 131)

#undef CARAT_WGMMA
#undef CARAT_WGMMA_TYPE
// clang-format on

}  // namespace carat_kernel
