// SPDX-License-Identifier: Apache-2.0
#include "random.hpp"

#include <cmath>

namespace dcgym::twin {
namespace {

constexpr double ln2_high = 0x1.62e42fee00000p-1;
constexpr double ln2_low = 0x1.a39ef35793c76p-33;
constexpr double largest_exponent = 709.0, smallest_exponent = -708.0;

template <size_t n> double polynomial(const double (&coefficients)[n], double x) {
    double value = coefficients[n - 1];
    for (size_t i = n - 1; i-- > 0;)
        value = value * x + coefficients[i];
    return value;
}

} // namespace

// x = m 2^e with m near 1, then log m = 2 artanh((m - 1) / (m + 1)) by its series.
double portable_log(double x) {
    const auto bits = std::bit_cast<uint64_t>(x);
    int exponent = static_cast<int>(bits >> 52) - 1023;
    double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent++;
    }
    const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
    static constexpr double series[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                                        2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    return exponent * ln2_high + (s * polynomial(series, square) + exponent * ln2_low);
}

// x = k ln 2 + r with |r| <= ln 2 / 2, then exp r by its series.
double portable_exp(double x) {
    if (x > largest_exponent)
        return HUGE_VAL;
    if (x < smallest_exponent)
        return 0;
    const auto k = static_cast<int64_t>(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    const double r = (x - static_cast<double>(k) * ln2_high) - static_cast<double>(k) * ln2_low;
    static constexpr double series[] = {1.0,
                                        1.0,
                                        1.0 / 2,
                                        1.0 / 6,
                                        1.0 / 24,
                                        1.0 / 120,
                                        1.0 / 720,
                                        1.0 / 5040,
                                        1.0 / 40320,
                                        1.0 / 362880,
                                        1.0 / 3628800,
                                        1.0 / 39916800,
                                        1.0 / 479001600,
                                        1.0 / 6227020800};
    const double scale = std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
    return polynomial(series, r) * scale;
}

// As long as its tables, which stay beside the one function that reads them.
double normal_quantile(double p) {
    static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                   1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                   4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                   3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static constexpr double b[] = {1.0,
                                   4.2313330701600911252e+1,
                                   6.8718700749205790830e+2,
                                   5.3941960214247511077e+3,
                                   2.1213794301586595867e+4,
                                   3.9307895800092710610e+4,
                                   2.8729085735721942674e+4,
                                   5.2264952788528545610e+3};
    static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                   5.76949722146069140550e0,  3.64784832476320460504e0,
                                   1.27045825245236838258e0,  2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static constexpr double d[] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
    static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                   1.78482653991729133580e0,  2.96560571828504891230e-1,
                                   2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static constexpr double f[] = {1.0,
                                   5.99832206555887937690e-1,
                                   1.36929880922735805310e-1,
                                   1.48753612908506148525e-2,
                                   7.86869131145613259100e-4,
                                   1.84631831751005468180e-5,
                                   1.42151175831644588870e-7,
                                   2.04426310338993978564e-15};
    const double q = p - 0.5;
    if (q <= 0.425 && q >= -0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    // The square root is exact to the last bit by IEEE 754.
    const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
    const double tail = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                               : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -tail : tail;
}

double normal_cdf(double z) {
    static constexpr double a[] = {220.206867912376,  221.213596169931, 112.079291497871,
                                   33.912866078383,   6.37396220353165, 0.700383064443688,
                                   0.0352624965998911};
    static constexpr double b[] = {440.413735824752, 793.826512519948,  637.333633378831,
                                   296.564248779674, 86.7807322029461,  16.064177579207,
                                   1.75566716318264, 0.0883883476483184};
    const double x = z < 0 ? -z : z;
    const double bell = portable_exp(-x * x / 2);
    double tail = 0;
    if (x < 7.07106781186547) {
        tail = bell * polynomial(a, x) / polynomial(b, x);
    } else if (x < 37) {
        double fraction = x + 0.65;
        for (int i = 4; i > 0; i--)
            fraction = x + i / fraction;
        tail = bell / fraction / 2.506628274631;
    }
    return z > 0 ? 1 - tail : tail;
}

} // namespace dcgym::twin
