"""Logarithm, exponential and normal quantile with the same bits on every machine.

NumPy's own functions come from whatever vector library suits the processor, and differ in the
last bit between machines; a flow would then start a nanosecond earlier here than there. These use
only operations whose result IEEE 754 prescribes (add, multiply, divide, square root, scaling by
powers of two), one NumPy call each, so that no compiler fuses two of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["exp", "log", "normal_quantile"]

FloatArray = npt.NDArray[np.float64]

# Splitting ln 2 keeps k * _LN2_HIGH exact. Method and coefficients: fdlibm, Sun Microsystems 1993.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476
_LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_LOG_ODD = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)

# Numerators and denominators of the three branches: Wichura, Algorithm AS 241 (PPND16), Applied
# Statistics 37 (1988).
_CENTRE = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_MIDDLE = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_TAIL = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def log(x: npt.ArrayLike) -> FloatArray:
    """Return the natural logarithm of positive numbers, within one unit in the last place.

    Args:
        x: Numbers.
    """
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    is_low = mantissa < _SQRT_HALF
    f = np.where(is_low, 2 * mantissa, mantissa) - 1
    k = exponent - is_low.astype(np.float64)
    s = f / (2 + f)
    z = s * s
    w = z * z
    series = w * _polynomial(_LOG_EVEN, w) + z * _polynomial(_LOG_ODD, w)
    half = 0.5 * (f * f)
    result: FloatArray = k * _LN2_HIGH - ((half - (s * (half + series) + k * _LN2_LOW)) - f)
    return result


def exp(x: npt.ArrayLike) -> FloatArray:
    """Return e to the power of numbers, within one unit in the last place.

    Args:
        x: Numbers.
    """
    x = np.clip(np.asarray(x, np.float64), -745.0, 709.0)
    k = np.rint(x / (_LN2_HIGH + _LN2_LOW))
    high, low = x - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    t = r * r
    c = r - t * _polynomial(_EXP, t)
    y = 1 - ((low - (r * c) / (2 - c)) - high)
    result: FloatArray = np.ldexp(y, k.astype(np.int64))
    return result


def normal_quantile(u: npt.ArrayLike) -> FloatArray:
    """Return the standard normal quantile of numbers between 0 and 1, both excluded.

    Args:
        u: Shares between 0 and 1.
    """
    u = np.asarray(u, np.float64)
    q = u - 0.5
    r = 0.180625 - q * q
    centre = q * _ratio(_CENTRE, r)
    depth = np.sqrt(-log(np.minimum(u, 1 - u)))
    tail = np.where(depth <= 5, _ratio(_MIDDLE, depth - 1.6), _ratio(_TAIL, depth - 5))
    return np.where(np.abs(q) <= 0.425, centre, np.copysign(tail, q))


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    value = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def _ratio(pair: tuple[tuple[float, ...], tuple[float, ...]], x: FloatArray) -> FloatArray:
    return _polynomial(pair[0], x) / _polynomial(pair[1], x)
