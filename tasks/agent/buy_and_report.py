"""Buys one of a product at https://shop.test and files its order number at https://tracker.test.

The agent of ../buy-and-report.toml: a script in the place of a model, over the same CDP URL that any agent gets. Like a
person it has nothing but the pages, and a browser in which it is already signed in.
"""

import json
import os
import re
import sys
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

SHOP = "https://shop.test/"
TRACKER = "https://tracker.test/issues/"
# A page takes a fraction of a second; a machine that is busy with other deploys, some.
PAGE_LIMIT_MS = 20_000


def main():
    [product] = sys.argv[1:]
    deploy = json.loads(os.environ["AGENTENV_DEPLOY"])
    pictures = Path(os.environ["AGENTENV_OUTPUT_DIR"])
    expect.set_options(timeout=PAGE_LIMIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(deploy["browsers"][0]["cdp_url"])
        [context] = browser.contexts
        context.set_default_timeout(PAGE_LIMIT_MS)

        shop = tab(context, SHOP)
        number, total = buy(shop, product)
        shop.screenshot(path=pictures / "confirmation.png")
        print(f"bought {product}: order {number}, {total}")

        tracker = tab(context, TRACKER)
        issue = report(tracker, f"Order {number}: {product}", f"Bought one {product} for {total}, delivery included.")
        tracker.screenshot(path=pictures / "issue.png")
        print(f"filed {issue}")


def tab(context: BrowserContext, url: str) -> Page:
    """The start tab of a site, as it looks to who is signed in now; a new one where somebody closed it."""
    page = next((page for page in context.pages if page.url.startswith(url)), None) or context.new_page()
    page.bring_to_front()
    page.goto(url)
    return page


def buy(page: Page, product: str) -> tuple[str, str]:
    """Searches the product, puts one into the cart and checks out; answers the order's number and total."""
    page.get_by_role("searchbox", name="Search the shop").fill(product)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=product).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(product)
    page.get_by_role("main").get_by_role("button", name="Add to cart", exact=True).first.click()
    expect(page.get_by_label("1 in the cart")).to_be_visible()
    page.get_by_role("link", name="Cart").click()
    page.get_by_role("link", name="Go to checkout").click()
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("status").filter(has_text="Thank you")).to_be_visible()
    heading = page.get_by_role("heading", level=1).inner_text()
    total = page.get_by_role("complementary", name="Summary").get_by_role("definition").last.inner_text()
    return heading.removeprefix("Order "), total


def report(page: Page, title: str, note: str) -> str:
    """Files an issue by the tracker's form; answers its address."""
    page.get_by_role("navigation").get_by_role("link", name="Create New").first.click()
    # Roundup ties no labels to its fields.
    page.locator("input[name=title]").fill(title)
    page.locator("select[name=priority]").select_option(label="feature")
    page.locator("textarea[name='@note']").fill(note)
    page.get_by_role("button", name="Submit New Entry").click()
    page.wait_for_url(re.compile(r"/issues/issue\d+"))
    expect(page.get_by_text(re.compile(r"issue \d+ created"))).to_be_visible()
    expect(page.locator("input[name=title]")).to_have_value(title)
    return page.url.split("?")[0]


if __name__ == "__main__":
    main()
