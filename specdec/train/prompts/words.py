"""Names and small things that fill the sentences of the prompts, and how to draw them.

A `Pick` is a seeded generator with the few draws that every kind of prompt needs. Nothing is drawn from
anywhere else, so a seed decides every text.
"""

import random
import re
from collections.abc import Mapping, Sequence

from specdec.train.prompts.topics import listed

FIRST_NAMES = listed("""
Aaliyah; Adrian; Agnes; Ahmed; Aiko; Alicia; Amara; Ana; Andrei; Anita; Antonio; Astrid; Ayşe; Bahar;
Beatriz; Benedikt; Bilal; Bruno; Camila; Carlos; Caroline; Chen; Chidi; Clara; Dalia; Daniel; Daria; Deepa;
Diego; Dmitri; Edith; Elif; Elena; Emeka; Emil; Esther; Fatima; Felix; Fiona; Francisco; Gabriela; Georg;
Giulia; Grace; Gustavo; Hana; Hassan; Heidi; Hiroshi; Ignacio; Ines; Ingrid; Isabel; Ivan; Jamal; Jasmine;
Jens; Joana; Jonas; Jorge; Julia; Kamal; Karim; Katya; Kofi; Lars; Leila; Liam; Linh; Lucía; Luis; Magda;
Malik; Marco; Margot; Marta; Mateo; Mei; Mina; Mohan; Nadia; Naomi; Niklas; Noor; Oksana; Olga; Omar; Paula;
Pedro; Petra; Priya; Rafael; Rania; Ravi; Rosa; Ruben; Salma; Samir; Sofia; Stefan; Sunita; Tamara; Tariq;
Tessa; Thabo; Tomás; Uma; Valeria; Vera; Viktor; Wanda; Yara; Yusuf; Zoe
""")

SURNAMES = listed("""
Abara; Acosta; Adeyemi; Almeida; Andersen; Aydin; Bakker; Banerjee; Barros; Becker; Bennett; Bianchi; Bishop;
Blanc; Borg; Calder; Campos; Castillo; Chaudhry; Cohen; Costa; Cruz; Dahl; Dimitrov; Duarte; Dubois; Eriksen;
Farrell; Ferreira; Fischer; Fontaine; Fraser; Gallo; Garza; Georgiou; Gupta; Haas; Halloran; Hansen; Haruki;
Hoang; Horvat; Ibáñez; Iversen; Jansen; Kapoor; Kaya; Keller; Khan; Kimura; Kovács; Kowalski; Lambert;
Larsen; Leone; Lindqvist; Lopes; Maas; Mahlangu; Marchetti; Marín; Mbeki; Moreau; Moretti; Nakamura; Navarro;
Nielsen; Novak; Nwosu; Okafor; Oliveira; Ortega; Osei; Papadakis; Park; Petrov; Quiroga; Rahman; Reyes;
Rinaldi; Rossi; Sato; Schmidt; Serrano; Silva; Singh; Soares; Stone; Suzuki; Tanaka; Thorne; Tran; Ueda;
Vargas; Vogel; Walsh; Weber; Whitaker; Yilmaz; Zamora; Zielinski
""")

TOWNS = listed("""
Ashbourne; Aldermoor; Bellmead; Brackwater; Briar Hill; Calverton; Castlebrook; Cedar Falls; Clearhaven;
Coldharbour; Dunmere; Eastvale; Elmsford; Fairwater; Fernleigh; Glenrock; Greystone; Harrowgate; Hazelbrook;
Highmoor; Inverdale; Juniper Bay; Kestrel Point; Kingsford; Lakeview; Larkfield; Linwood; Marlow Heath;
Millbrook; Moorside; Northgate; Oakridge; Old Harbour; Pinecrest; Port Alder; Quarry Bank; Ravensby;
Redcliff; Riverton; Rosemount; Saltmarsh; Sandhurst; Silverlake; Stonebridge; Sunnyvale; Thornbury; Upper
Wick; Valley Cross; Westport; Whitby Green; Willowdale; Yarrow
""")

COMPANY_FRONT = listed("""
Alder; Amber; Arc; Aster; Beacon; Blue Heron; Bright; Cobalt; Copper; Delta; Driftwood; Echo; Evergreen;
Falcon; Fjord; Granite; Halcyon; Harbour; Helix; Indigo; Juniper; Kite; Lantern; Lumen; Maple; Meridian;
Nimbus; North Star; Nova; Orchard; Osprey; Pioneer; Quartz; Red Oak; Sable; Sierra; Solstice; Summit; Terra;
Tidal; Umbra; Vertex; Willow; Zephyr
""")
COMPANY_BACK = listed("""
Analytics; Bakery; Bank; Biotech; Books; Cycles; Design; Energy; Engineering; Foods; Furniture; Health;
Insurance; Labs; Logistics; Mobility; Motors; Outdoor; Robotics; Shipping; Software; Solar; Studios; Systems;
Textiles; Tools; Travel
""")

MONTHS = listed("""
January; February; March; April; May; June; July; August; September; October; November; December
""")
DAYS = listed("Monday; Tuesday; Wednesday; Thursday; Friday; Saturday; Sunday")
COLOURS = listed("black; white; red; green; blue; yellow; grey; orange; purple; silver; brown; turquoise")
MATERIALS = listed(
    "steel; aluminium; bamboo; oak; glass; recycled plastic; cotton; wool; leather; ceramic; cork; linen"
)
GOODS = listed("""
apples; pears; oranges; lemons; melons; eggs; loaves of bread; muffins; cupcakes; cookies; sandwiches;
bottles of milk; jars of honey; bags of rice; boxes of tea; pencils; notebooks; erasers; stamps; marbles;
stickers; toy cars; puzzles; balloons; candles; roses; tulips; seedlings; bricks; tiles; planks; paint tins;
light bulbs; batteries; T-shirts; socks; hats; scarves; tickets; postcards; books; magazines; shells; beads;
buttons; footballs; tennis balls; chairs; lamps
""")
SUBJECTS = listed(
    "maths; physics; chemistry; biology; history; geography; music; art; French; Spanish; economics; law"
)
WEATHER = listed(
    "heavy rain; a heatwave; thick fog; strong winds; the first snow; a mild and dry spell; a thunderstorm"
)
JOBS_WITH_PAY = listed(
    "waiter; plumber; babysitter; tutor; gardener; cleaner; courier; guide; painter; baker; lifeguard"
)
MOODS = listed("""
funny; sad; suspenseful; hopeful; nostalgic; absurd; gentle; dark; romantic; heart-warming; mysterious;
ironic; calm
""")


class Pick(random.Random):
    """A seeded source of every draw: `one` of a list, `some` of it, `chance`, names, numbers, dates."""

    def one(self, options: Sequence[str]) -> str:
        return options[self.randrange(len(options))]

    def some(self, options: Sequence[str], count: int) -> list[str]:
        return self.sample(list(options), count)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def name(self) -> str:
        return f"{self.one(FIRST_NAMES)} {self.one(SURNAMES)}"

    def company(self) -> str:
        return f"{self.one(COMPANY_FRONT)} {self.one(COMPANY_BACK)}"

    def date(self) -> str:
        return f"{self.randint(1, 28)} {self.one(MONTHS)}"

    def year(self, first: int = 1850, last: int = 2024) -> str:
        return str(self.randint(first, last))

    def fill(self, template: str, values: Mapping[str, str]) -> str:
        """`template` with every {key} replaced, and with one of the words of every [this|that]."""
        chosen = re.sub(r"\[([^\[\]]*\|[^\[\]]*)\]", lambda match: self.one(match[1].split("|")), template)
        return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], chosen)


def joined(entries: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return entries[0] if len(entries) == 1 else f"{', '.join(entries[:-1])} {last} {entries[-1]}"


def sentence(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def plain(topic: str) -> str:
    """A topic without its article: `a hash table` -> `hash table`."""
    return re.sub(r"^(an?|the) ", "", topic)
