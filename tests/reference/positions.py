"""Position schemes in plain float64 numpy, written from the papers' descriptions, one position or
pair at a time.

Nothing here comes from `zoo`.
"""

import math

import numpy as np


def sinusoid(position, dim, layout="interleaved", endpoint=False):
    """Vaswani et al. 2017, section 3.5: the vector of one position; "half": all sines, then all
    cosines; `endpoint`: the wavelengths are spaced evenly, in their logarithms, from 2 pi to 2 pi
    10000 (both as in tensor2tensor and fairseq).
    """
    vector = np.zeros(dim)
    for i in range(dim // 2):
        angle = position / (np.geomspace(1, 10000, dim // 2)[i] if endpoint else 10000 ** (2 * i / dim))
        sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, dim // 2 + i)
        vector[sine], vector[cosine] = np.sin(angle), np.cos(angle)
    return vector


def rotate(vector, position, frequencies, layout, factor=1.0):
    """Su et al. 2021, section 3.2: a pair of dimensions is a complex number, multiplied by e^(i p
    theta_k).
    """
    turned, pairs = np.array(vector, np.float64), len(frequencies)
    for pair in range(pairs):
        a, b = (pair, pair + pairs) if layout == "half" else (2 * pair, 2 * pair + 1)
        number = factor * (turned[a] + 1j * turned[b]) * np.exp(1j * position * frequencies[pair])
        turned[a], turned[b] = number.real, number.imag
    return turned


def frequencies(theta, rotated):
    """Su et al. 2021, eq. 15: theta_k = theta^(-2 (k - 1) / d), k from 1."""
    return [theta ** (-2 * (k - 1) / rotated) for k in range(1, rotated // 2 + 1)]


def linear(theta, rotated, scale):
    """Chen et al. 2023, eq. 4: f(x, m L / L'), position m as if it were m / scale."""
    return [frequency / scale for frequency in frequencies(theta, rotated)]


def dynamic(theta, rotated, scale, original, length):
    """Dynamic NTK: the base for L' tokens is b * ((scale * L' / L) - (scale - 1))^(d / (d - 2)),
    and b up to L tokens.
    """
    if length > original:
        theta = theta * (scale * length / original - (scale - 1)) ** (rotated / (rotated - 2))
    return frequencies(theta, rotated)


def yarn(theta, rotated, scale, original, low, high, truncate=True):
    """Peng et al. 2023, section 3.2, with the ramp of the authors' code, which is over the number
    of the pair.

    Pair number x, a real number, makes original * theta^(-2 x / d) / (2 pi) turns. The authors' code
    rounds the ends of the ramp outwards; gpt-oss (OpenAI 2025) does not (`truncate=False`).
    """

    def pair_with(turns):
        x = math.log(original / (2 * math.pi * turns)) / math.log(theta ** (2 / rotated))
        return x

    start, end = pair_with(high), pair_with(low)
    if truncate:
        start, end = math.floor(start), math.ceil(end)
    start, end = max(start, 0), min(end, rotated - 1)
    mixed = []
    for pair, frequency in enumerate(frequencies(theta, rotated)):
        if pair <= start:
            gamma = 1.0
        elif pair >= end:
            gamma = 0.0
        else:
            gamma = 1 - (pair - start) / (end - start)
        mixed.append((1 - gamma) * frequency / scale + gamma * frequency)
    return mixed


def yarn_sharpening(scale):
    """Peng et al. 2023, eq. 22: sqrt(1 / t) = 0.1 ln(s) + 1, on queries and on keys."""
    return 0.1 * math.log(scale) + 1


def llama3(theta, rotated, scale, original, low, high):
    """LLaMA 3.1's reference code: three cases of wavelengths."""
    scaled = []
    for frequency in frequencies(theta, rotated):
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            scaled.append(frequency)
        elif wavelength > original / low:
            scaled.append(frequency / scale)
        else:
            smooth = (original / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * frequency / scale + smooth * frequency)
    return scaled


def longrope(theta, rotated, scaling, length):
    """Ding et al. 2024, section 3.2: each frequency over its own factor, those of the longer rows
    beyond the original length.
    """
    factors = scaling.long_factors if length > scaling.original_length else scaling.short_factors
    factors = factors or [1.0] * (rotated // 2)
    return [frequency / factor for frequency, factor in zip(frequencies(theta, rotated), factors, strict=True)]


def longrope_sharpening(scale, original):
    """Abdin et al. 2024 (Phi-3's code): sqrt(1 + ln s / ln L), on queries and on keys."""
    return (1 + math.log(scale, original)) ** 0.5


def rope(position, head_dim, length):
    """(frequencies, factor) of a config's `position` part, for keys at positions below `length`."""
    turning, factor = every_frequency(position, head_dim, length)
    # Barbero et al. 2024: the lowest frequencies are 0.
    kept = round(position.kept_frequencies * len(turning))
    return [frequency if pair < kept else 0.0 for pair, frequency in enumerate(turning)], factor


def every_frequency(position, head_dim, length):
    """(frequencies, factor) before any frequency is set to 0."""
    theta, rotated, scaling = position.theta, round(head_dim * position.fraction), position.scaling
    kind, scale, original = scaling.kind, scaling.factor, scaling.original_length
    if kind == "linear":
        return linear(theta, rotated, scale), 1.0
    if kind == "dynamic":
        return dynamic(theta, rotated, scale, original, length), 1.0
    if kind == "yarn":
        ramp = yarn(theta, rotated, scale, original, scaling.low, scaling.high, scaling.truncate)
        return ramp, scaling.sharpening or yarn_sharpening(scale)
    if kind == "llama3":
        return llama3(theta, rotated, scale, original, scaling.low, scaling.high), 1.0
    if kind == "longrope":
        return longrope(theta, rotated, scaling, length), longrope_sharpening(scale, original)
    assert kind == "none"
    return frequencies(theta, rotated), 1.0


# Press et al. 2021: section 3 (4 and 8 heads), and what the authors' code gives for 6 and 12.
ALIBI_SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
    12: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


def alibi(head, num_heads, query, key):
    """Press et al. 2021, section 3: what a head adds to the score; symmetric where keys may come
    after the query.
    """
    return -ALIBI_SLOPES[num_heads][head] * abs(query - key)


def bucket(query, key, buckets, max_distance, bidirectional):
    """Raffel et al. 2020, section 2.1: the number of the bucket, in whole numbers.

    Of n buckets for one direction n / 2 hold a distance each. The other n / 2 grow by the same
    ratio up to `max_distance`: bucket n / 2 + j begins at n / 2 * (max_distance / (n / 2))^(j / (n
    / 2)), and what lies beyond is in the last.
    """
    first, distance = 0, query - key
    if bidirectional:
        buckets //= 2
        first, distance = (buckets, -distance) if key > query else (0, distance)
    elif distance < 0:
        distance = 0
    exact = buckets // 2
    if distance < exact:
        return first + distance
    wide, j = buckets - exact, 0
    # distance >= exact * (max_distance / exact)^((j + 1) / wide), both sides to the power of `wide`
    # and times exact^(j + 1).
    while j + 1 < wide and distance**wide * exact ** (j + 1) >= exact**wide * max_distance ** (j + 1):
        j += 1
    return first + exact + j


def clipped(query, key, clip):
    """Shaw et al. 2018, section 3.2: the row of a table of 2k + 1 vectors for clip(j - i, k), query
    i and key j.
    """
    return max(-clip, min(clip, key - query)) + clip
