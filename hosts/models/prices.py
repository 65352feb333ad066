"""What tokens cost, from the price list that comes with the client library; nothing is downloaded."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal

from genai_prices import Usage, calc_price

from .settings import Setting

_MILLION = 1_000_000


def cost_of(setting: Setting, tokens_in: int, tokens_out: int) -> int:
    """Millionths of the list's currency, rounded up; 0 where no price is known.

    A server at ``base_url`` has prices of its own: that it calls a model by a known name says nothing about them.
    """
    if setting.base_url:
        return 0
    provider = setting.provider.removesuffix("-chat")
    try:
        price = calc_price(
            Usage(input_tokens=tokens_in, output_tokens=tokens_out), setting.name, provider_id=provider
        )
    except (LookupError, ValueError):
        return 0
    return int((Decimal(price.total_price) * _MILLION).to_integral_value(ROUND_UP))
